"""The feed-forward linears of the speech model, split over two devices, compute what one device computes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from asr.loader import ModelLoader
from asr.models import bundled_models
from asr.nn.linear import feed_forward
from ggml import Split, SplitAxis, SplitInfo, Type

SplitFunction = Callable[[SplitInfo, int], "Split | SplitAxis"]
Array = npt.NDArray[np.float32]
FRAMES = 23


class Weights:
    """The weights of one layer on one device, found by name as :class:`asr.loader.ModelLoader` finds them."""

    fused = False  # ggml's own operators, which a meta device has too

    def __init__(self, loader: ModelLoader, layer: str, backend: ggml.Backend) -> None:
        self.context = ggml.Context(1 << 20)
        self.tensors: dict[str, ggml.Tensor] = {}
        names = [name for name in loader.shapes if name.startswith(layer) and "feed_forward" in name]
        for name in names:
            stored = loader.weight(name)
            self.tensors[name] = self.context.new_tensor(stored.type, list(stored.ne))
            self.tensors[name].name = name.removeprefix(layer)
        ggml.alloc_ctx_tensors(self.context, backend)
        for name in names:
            ggml.tensor_copy(loader.weight(name), self.tensors[name])

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def weight(self, name: str) -> ggml.Tensor:
        return self.tensors[name]


def layer_on(device: ggml.Device, loader: ModelLoader, layer: str, x: Array) -> Array:
    """Both feed-forward modules of a layer, with their norms and residuals, on a device."""
    backend = ggml.Backend(device)
    weights = Weights(loader, layer, backend)
    inputs, ctx = ggml.Context(1 << 16), ggml.Context(1 << 20)
    frames = inputs.new_tensor(Type.F32, list(reversed(x.shape)))
    ggml.alloc_ctx_tensors(inputs, backend)
    frames.set(x)
    y = frames
    for module in ("feed_forward1", "feed_forward2"):
        y = feed_forward(ctx, weights, f"{layer}{module}", y, norm=f"{layer}norm_{module}")  # type: ignore[arg-type]
    y.set_output()
    graph = ggml.Graph(ctx, 64)
    graph.expand(y)
    ggml.Gallocr(backend).alloc_graph(graph)
    backend.compute(graph)
    return y.get()


def megatron(shares: Sequence[float]) -> SplitFunction:
    """linear1 split over what it makes, linear2 over what it takes, in blocks of 32; the rest mirrored."""

    def sizes(n: int) -> list[int]:
        ends = [round(n * sum(shares[: i + 1]) / 32) * 32 for i in range(len(shares))]
        return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]

    def split(info: SplitInfo, n_devices: int) -> Split | SplitAxis:
        if info.name.endswith("linear1.weight"):
            return Split(SplitAxis.AXIS_1, sizes(info.ne[1]))
        if info.name.endswith(("linear1.bias", "linear2.weight")):
            return Split(SplitAxis.AXIS_0, sizes(info.ne[0]))
        return SplitAxis.MIRRORED

    return split


@pytest.fixture(scope="module")
def loader() -> ModelLoader:
    return ModelLoader(next(iter(bundled_models().values())))


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.75, 0.25), (1, 0)], ids=["even", "uneven", "zero"])
@pytest.mark.parametrize("number", [0, -1], ids=["first layer", "last layer"])
def test_feed_forward(loader: ModelLoader, shares: tuple[float, float], number: int) -> None:
    layers = sorted({int(name.split(".")[2]) for name in loader.shapes if name.startswith("encoder.layers.")})
    layer = f"encoder.layers.{layers[number]}."
    width = loader.weight(f"{layer}feed_forward1.linear1.weight").ne[0]
    x = np.random.default_rng(0).standard_normal((FRAMES, width)).astype(np.float32)
    cpu = ggml.device("CPU")
    alone = layer_on(cpu, loader, layer, x)
    split_up = layer_on(ggml.meta_device([cpu, cpu], megatron(shares)), loader, layer, x)
    assert np.abs(alone - x).max() > 0.1
    assert np.abs(split_up - alone).max() < 1e-4


ENCODER = """
import json, sys
import numpy as np, soundfile
import asr, ggml
from ggml import Split, SplitAxis
parallel, split_up = False, set()
def split(info, n):
    if not parallel or "feed_forward" not in info.name or "norm" in info.name:
        return SplitAxis.MIRRORED
    if info.name.endswith("linear1.weight"):
        axis = 1
    elif info.name.endswith(("linear1.bias", "linear2.weight")):
        axis = 0
    else:
        return SplitAxis.MIRRORED
    split_up.add(info.name)
    return Split(axis, [info.ne[axis] // 2] * 2)
cpu = ggml.device("CPU")
meta = ggml.meta_device([cpu, cpu], split)
ggml.register_device(meta)
samples, _ = soundfile.read(sys.argv[1], dtype="float32")
def run(device):
    model = asr.load_model(device=device)
    return model._encoder.encode(model.backend, model._log_mel(samples, 1)), model.transcribe(samples).text
here, text = run("cpu")
mirrored, mirrored_text = run(meta.name)
parallel = True
split_encoder, split_text = run(meta.name)
print(json.dumps({
    "split": len(split_up), "text": [text, mirrored_text, split_text], "size": float(np.abs(here).max()),
    "parallel": float(np.abs(split_encoder - mirrored).max()),
    "cpu": float(np.abs(split_encoder - here).max()),
}))
"""


def test_whole_encoder() -> None:
    """The model on a meta device: feed-forward linears split, all else mirrored, its text as on the CPU."""
    clip = Path(__file__).parents[1] / "fixtures" / "waveforms" / "short.flac"
    done = subprocess.run(
        [sys.executable, "-c", ENCODER, str(clip)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["split"] >= 6
    assert len(set(result["text"])) == 1
    assert result["parallel"] < 1e-4
    assert result["cpu"] < 1e-3
