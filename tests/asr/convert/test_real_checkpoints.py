"""Checkpoints that NeMo wrote: the committed fixtures, and the trained model where it is present."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from asr.convert import convert_nemo

TESTS = Path(__file__).resolve().parents[2]
FIXTURES = sorted((TESTS / "fixtures").glob("*/model.nemo"))
TRAINED = TESTS.parent / "../shared/models/tiny-commands-en.nemo"


@pytest.mark.skipif(not FIXTURES, reason="no NeMo fixtures")
@pytest.mark.parametrize("source", FIXTURES, ids=lambda path: path.parent.name)
def test_every_fixture_converts_to_every_type(source: Path, tmp_path: Path) -> None:
    readers = {}
    for kind in ("f32", "f16", "q8_0"):
        convert_nemo(source, tmp_path / f"{kind}.gguf", kind)
        readers[kind] = {tensor.name: tensor for tensor in GGUFReader(tmp_path / f"{kind}.gguf").tensors}
    assert readers["f32"].keys() == readers["f16"].keys() == readers["q8_0"].keys()
    for name, tensor in readers["f32"].items():
        assert tensor.tensor_type.name == "F32"
        assert np.isfinite(tensor.data).all(), name
    window = readers["f32"]["preprocessor.featurizer.window"].data
    np.testing.assert_allclose(window, np.hanning(len(window)), atol=1e-6)


@pytest.mark.skipif(not TRAINED.exists(), reason="the trained checkpoint is not here")
def test_the_trained_model(tmp_path: Path) -> None:
    tracemalloc.start()
    convert_nemo(TRAINED, tmp_path / "m.gguf")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 11 MB of weights, of which the largest tensor has 0.26 MB; the rest is configuration and tokenizer.
    assert peak < 4 << 20
    reader = GGUFReader(tmp_path / "m.gguf")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    # 2.76 M parameters, 2 x 6 x 128 running statistics, the window and the filterbank
    assert sum(tensor.n_elements for tensor in reader.tensors) == 2777927
    np.testing.assert_allclose(tensors["preprocessor.featurizer.window"].data, np.hanning(400), atol=1e-6)
    filters = tensors["preprocessor.featurizer.fb"].data
    assert filters.shape == (1, 80, 257)
    assert (filters >= 0).all()
    # Slaney's normalisation: every triangle has about the same area: 1, with bins of 31.25 Hz.
    np.testing.assert_allclose(filters[0, 40:].sum(axis=1) * 31.25, 1.0, atol=0.06)
    # The blank's embedding is the padding row, which stays zero.
    assert not tensors["decoder.prediction.embed.weight"].data[96].any()
    assert tensors["ctc_decoder.decoder_layers.0.weight"].data.shape == (97, 128)
    assert (tensors["encoder.layers.5.conv.batch_norm.running_var"].data > 0).all()
    pieces = reader.fields["parakeet.tokenizer.pieces"].contents()
    assert pieces[:4] == ["<unk>", "▁o", "▁t", "ne"]
    assert len(pieces) == 96
