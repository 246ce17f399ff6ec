"""Graphs on a backend whose earlier graphs worked in buffers that are gone, in a process of its own.

ggml's Vulkan backend uses its descriptor sets again for the next graph and writes only the bindings that a
shader reads, so that the others name buffers of earlier graphs. Mesa 22.3's lavapipe reads them all the same;
``docs/devices.md`` says more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

import ggml

OTHER = os.environ.get("GGML_TEST_DEVICE", "")

PROGRAM = textwrap.dedent(
    """
    import os
    import sys

    import numpy as np

    import ggml

    if path := sys.argv[2]:
        ggml.load_backend(path)


    def chain(backend, operators, size):
        with ggml.Context(1 << 20) as ctx:
            x, y = (ctx.new_tensor(ggml.Type.F32, [size]) for _ in range(2))
            result = x
            for name in operators:
                result = ggml.mul(ctx, result, y) if name == "mul" else ggml.sqr(ctx, result)
            graph = ggml.Graph(ctx, 64)
            graph.expand(result)
            with ggml.alloc_ctx_tensors(ctx, backend):
                x.set(np.ones(size, np.float32))
                y.set(np.ones(size, np.float32))
                backend.compute(graph)
                assert (result.get() == 1).all()


    with ggml.Backend(sys.argv[1]) as backend:
        for turn in range(30):
            # The first operator's set has two bindings in both graphs, the others three and then two.
            chain(backend, ["sqr", *["mul"] * 40, "sqr", "sqr"], 1000 + 997 * turn)
            chain(backend, ["sqr"] * 43, 3000 + 1009 * turn)
    """
)


@pytest.mark.parametrize("name", dict.fromkeys(("CPU", OTHER or "CPU")))
def test_buffers_of_earlier_graphs_are_gone(name: str, find_device: Callable[[str], ggml.Device]) -> None:
    device = find_device(name)
    variables = ("GGML_TEST_VULKAN_MODULE", "GGML_TEST_CUDA_MODULE")
    kind = "" if device.registry is None else device.registry.name.lower()
    paths = [os.environ.get(variable, "") for variable in variables if kind and kind in variable.lower()]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, *(paths or [""])],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
