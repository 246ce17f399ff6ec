"""The depthwise convolution of a Conformer layer, against NumPy, also of a single frame."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import ggml
from asr.nn import convolution


@pytest.mark.parametrize("fused", [False, True], ids=["ggml", "fused"])
@pytest.mark.parametrize("n_frames", [1, 2, 5])
@pytest.mark.parametrize("context", [(4, 4), (8, 0)])
def test_depthwise(
    n_frames: int, context: tuple[int, int], fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    d, width = 6, sum(context) + 1
    random = np.random.default_rng(n_frames)
    x, kernel, bias = (random.normal(size=s).astype(np.float32) for s in ((n_frames, d), (width, d), (d,)))
    ctx, backend = ggml.Context(1 << 18), ggml.Backend()
    leaves = [ctx.new_tensor(ggml.Type.F32, list(reversed(v.shape))) for v in (x, kernel, bias)]
    weights = {convolution._KERNEL: leaves[1], convolution._BIAS: leaves[2]}
    loader = SimpleNamespace(fused=fused)
    monkeypatch.setattr(convolution, "clone_weight", lambda ctx, loader, name: weights[name])
    result = convolution._depthwise(ctx, loader, "", leaves[0], context)
    graph = ggml.Graph(ctx, 64)
    graph.expand(result)
    ggml.alloc_ctx_tensors(ctx, backend)
    for leaf, value in zip(leaves, (x, kernel, bias), strict=True):
        leaf.set(value.reshape(leaf.get().shape))
    backend.compute(graph)
    padded = np.pad(x, (context, (0, 0)))
    expected = np.stack([(padded[t : t + width] * kernel).sum(0) for t in range(n_frames)]) + bias
    np.testing.assert_allclose(result.get().reshape(n_frames, d), expected, atol=1e-5)
