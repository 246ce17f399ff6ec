"""Operators computed on the CPU, to be compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import Type

Array = npt.NDArray[Any]
Build = Callable[..., ggml.Tensor]
TYPES = {"float32": Type.F32, "float16": Type.F16, "int32": Type.I32, "int64": Type.I64}


@pytest.fixture(scope="session")
def evaluate() -> Callable[..., Array]:
    """A function that computes build(ctx, tensors of the inputs); arrays have NumPy's order of sizes."""

    def compute(build: Build, *inputs: Array, threads: int = 2) -> Array:
        ctx = ggml.Context(1 << 20)
        backend = ggml.Backend(n_threads=threads)
        leaves = [ctx.new_tensor(TYPES[x.dtype.name], list(reversed(x.shape))) for x in inputs]
        result = build(ctx, *leaves)
        graph = ggml.Graph(ctx, 256)
        graph.expand(result)
        ggml.alloc_ctx_tensors(ctx, backend)
        for leaf, x in zip(leaves, inputs, strict=True):
            leaf.set(np.ascontiguousarray(x).reshape(leaf.get().shape))
        backend.compute(graph)
        return result.get().reshape(tuple(reversed(result.ne)))

    return compute


@pytest.fixture(scope="session")
def check(evaluate: Callable[..., Array]) -> Callable[..., None]:
    """A function that asserts what build(ctx, tensors of the inputs) computes."""

    def compare(expected: Array, build: Build, *inputs: Array, atol: float = 1e-5) -> None:
        got = evaluate(build, *inputs)
        np.testing.assert_allclose(np.squeeze(got), np.squeeze(expected), atol=atol, rtol=atol)

    return compare
