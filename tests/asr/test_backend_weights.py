"""A loader's weights: its own tensors, in the memory map, realised once, alive while they are used."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ggml
from asr.backend import Backend, clone_weight, clone_weight_opt, ensure_weights_realized, weight_to_host_f32
from asr.loader import ModelLoader

WEIGHT = "encoder.layers.0.feed_forward1.linear1.weight"


@pytest.fixture
def loader(gguf_path: Callable[[str], Path]) -> ModelLoader:
    return ModelLoader(gguf_path("tdt-ctc"))


def test_clone_weight_is_the_loaders_own_tensor(loader: ModelLoader) -> None:
    ctx = ggml.Context(1 << 16)
    free = ctx.free_bytes
    first = clone_weight(ctx, loader, WEIGHT)
    assert clone_weight(ctx, loader, WEIGHT) is first
    assert loader.weight(WEIGHT) is first
    assert ctx.free_bytes == free
    assert clone_weight_opt(ctx, loader, WEIGHT) is first
    assert clone_weight_opt(ctx, loader, "no.such.weight") is None
    with pytest.raises(KeyError, match=r"no\.such\.weight"):
        clone_weight(ctx, loader, "no.such.weight")
    with pytest.raises(KeyError):
        weight_to_host_f32(loader, "no.such.weight")


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be written there")
def test_weights_lie_in_the_memory_map(gguf_path: Callable[[str], Path], tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shutil.copyfile(gguf_path("tdt-ctc"), path)
    loader = ModelLoader(path)
    before = weight_to_host_f32(loader, WEIGHT)
    place = path.read_bytes().index(before.tobytes())
    with path.open("r+b") as file:  # no truncation: the map sees the file itself
        file.seek(place)
        file.write((before + 1).tobytes())
    assert np.array_equal(weight_to_host_f32(loader, WEIGHT), before + 1)


def test_realising_weights_is_idempotent(loader: ModelLoader) -> None:
    ensure_weights_realized(loader)
    weight = loader.weight(WEIGHT)
    ensure_weights_realized(loader)
    loader.realize_weights()
    assert loader.weight(WEIGHT) is weight


def test_weights_are_realised_once_by_many_threads(loader: ModelLoader) -> None:
    found: list[ggml.Tensor] = []
    threads = [threading.Thread(target=lambda: found.append(loader.weight(WEIGHT))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8
    assert all(weight is found[0] for weight in found)


def test_weights_outlive_their_loader(loader: ModelLoader) -> None:
    backend = Backend(1)
    expected = weight_to_host_f32(loader, WEIGHT)
    weight = loader.weight(WEIGHT)
    del loader
    assert np.array_equal(weight.to_float32(), expected)
    assert np.array_equal(backend.compute(lambda ctx: ggml.scale(ctx, weight, 2.0)), 2 * expected)
