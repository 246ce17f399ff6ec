"""Model files that are not what they should be: each an error that names the file and what is wrong."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import asr
from asr.loader import ModelLoader

if TYPE_CHECKING:
    # Tests are imported by path, so that conftest cannot be imported; this is for readers.
    GgufContent = Any

Content = Callable[[Path], "GgufContent"]


@pytest.fixture
def content(gguf_path: Callable[[str], Path], gguf_content: Content) -> GgufContent:
    """A good hybrid model, to be spoilt."""
    return gguf_content(gguf_path("tdt-ctc"))


def refused(path: Path, *words: str, error: type[asr.AsrError] = asr.ModelFormatError) -> None:
    with pytest.raises(error) as caught:
        asr.load_model(path, n_threads=1)
    message = str(caught.value)
    assert path.name in message
    for word in words:
        assert word in message


def test_a_good_file_rewritten_loads(content: GgufContent, tmp_path: Path) -> None:
    model = asr.load_model(content.write(tmp_path / "good.gguf"), n_threads=1)
    assert model.decoders == ("tdt", "ctc")


# Not a model at all


def test_missing_file(tmp_path: Path) -> None:
    refused(tmp_path / "none.gguf", "there is no model", error=asr.ModelNotFoundError)
    with pytest.raises(asr.ModelNotFoundError, match=r"none\.gguf"):
        ModelLoader(tmp_path / "none.gguf")


def test_unknown_name_lists_the_bundled_ones() -> None:
    with pytest.raises(asr.ModelNotFoundError, match=r"'no-such-model'.*tiny-commands-en"):
        asr.load_model("no-such-model")


def test_folder(tmp_path: Path) -> None:
    refused(tmp_path, "folder", error=asr.ModelNotFoundError)
    with pytest.raises(asr.ModelNotFoundError):
        ModelLoader(tmp_path)


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.gguf"
    path.touch()
    refused(path, "is empty")


@pytest.mark.parametrize("data", [b"RIFF1234WAVE", b"ggml", b"G", b"\0" * 100, b"PK\3\4", b"FUGG\0\0\0\3"])
def test_foreign_magic(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "foreign.gguf"
    path.write_bytes(data)
    refused(path, "not a GGUF model file", "asr convert")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="needs file permissions")
def test_file_that_cannot_be_read(content: GgufContent, tmp_path: Path) -> None:
    path = content.write(tmp_path / "secret.gguf")
    path.chmod(0)
    refused(path, "cannot read", error=asr.ModelNotFoundError)


@pytest.mark.parametrize("share", [0.0001, 0.001, 0.01, 0.05, 0.5, 0.99])
def test_truncated(share: float, content: GgufContent, tmp_path: Path) -> None:
    path = content.write(tmp_path / "cut.gguf")
    data = path.read_bytes()
    path.write_bytes(data[: max(4, int(len(data) * share))])
    refused(path)


def test_one_byte_short(content: GgufContent, tmp_path: Path) -> None:
    path = content.write(tmp_path / "cut.gguf")
    end = content.tensors[list(content.tensors)[-1]][2]
    padding = -len(end) % 32
    path.write_bytes(path.read_bytes()[: -padding - 1])
    refused(path, "truncated", "1 bytes past its end")


def test_garbage_after_the_magic(tmp_path: Path) -> None:
    path = tmp_path / "garbage.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + np.random.default_rng(1).bytes(4096))
    refused(path)


# A GGUF file of something else


def test_foreign_architecture(content: GgufContent, tmp_path: Path) -> None:
    pairs = {"general.architecture": ((8,), "llama"), "llama.block_count": ((4,), 32)}
    content.pairs = pairs
    refused(content.write(tmp_path / "llama.gguf"), "'llama'", "Parakeet")
    content.tensors = {}
    refused(content.write(tmp_path / "llama.gguf"), "'llama'", "Parakeet")
    content.pairs = {}
    refused(content.write(tmp_path / "bare.gguf"), "general.architecture")


def test_another_dialect_of_the_same_architecture(content: GgufContent, tmp_path: Path) -> None:
    content.pairs = {"general.architecture": ((8,), "parakeet"), "stt.variant": ((8,), "tdt")}
    refused(content.write(tmp_path / "other.gguf"), "parakeet.cpp's layout")


# Tensors


@pytest.mark.parametrize(
    "name",
    [
        "preprocessor.featurizer.fb",
        "preprocessor.featurizer.window",
        "encoder.pre_encode.conv.0.weight",
        "encoder.pre_encode.out.bias",
        "encoder.layers.0.norm_out.weight",
        "encoder.layers.1.self_attn.pos_bias_u",
        "encoder.layers.1.conv.batch_norm.running_var",
        "decoder.prediction.embed.weight",
        "decoder.prediction.dec_rnn.lstm.bias_hh_l0",
        "joint.enc.weight",
        "joint.joint_net.2.bias",
        "ctc_decoder.decoder_layers.0.bias",
    ],
)
def test_missing_tensor(name: str, content: GgufContent, tmp_path: Path) -> None:
    del content.tensors[name]
    refused(content.write(tmp_path / "incomplete.gguf"), "missing")


def test_missing_tensor_is_named(content: GgufContent, tmp_path: Path) -> None:
    del content.tensors["encoder.layers.1.norm_conv.bias"]
    refused(content.write(tmp_path / "incomplete.gguf"), "encoder.layers.1.norm_conv.bias", "missing")


@pytest.mark.parametrize(
    "name",
    [
        "preprocessor.featurizer.fb",
        "encoder.pre_encode.conv.5.weight",
        "encoder.pre_encode.out.weight",
        "encoder.layers.0.feed_forward1.linear1.weight",
        "encoder.layers.0.self_attn.linear_pos.weight",
        "encoder.layers.1.conv.depthwise_conv.weight",
        "encoder.layers.1.norm_out.bias",
        "decoder.prediction.dec_rnn.lstm.weight_ih_l0",
        "joint.joint_net.2.weight",
        "ctc_decoder.decoder_layers.0.weight",
    ],
)
@pytest.mark.parametrize("change", ["longer", "transposed"])
def test_wrong_shape(name: str, change: str, content: GgufContent, tmp_path: Path) -> None:
    array = content.array(name)
    if change == "longer":
        wrong = np.concatenate([array, array[..., :1]], axis=-1)
    else:
        wrong = np.ascontiguousarray(array.T)
        if [n for n in wrong.shape if n > 1] == [n for n in array.shape if n > 1]:
            pytest.skip("its transpose has the same shape")
    content.set_array(name, wrong)
    refused(content.write(tmp_path / "shape.gguf"), name, "shape", "expected")


def test_transducer_of_another_width(content: GgufContent, tmp_path: Path) -> None:
    name = "decoder.prediction.embed.weight"
    content.set_array(name, content.array(name)[:, :-1])
    refused(content.write(tmp_path / "shape.gguf"), "shape")


def test_no_heads(content: GgufContent, tmp_path: Path) -> None:
    heads = ("decoder.", "joint.", "ctc_decoder.")
    content.tensors = {k: v for k, v in content.tensors.items() if not k.startswith(heads)}
    refused(content.write(tmp_path / "headless.gguf"), "neither a transducer nor a CTC head")


@pytest.mark.parametrize("kept", ["ctc", "tdt"])
def test_one_head_of_a_hybrid_is_enough(kept: str, content: GgufContent, tmp_path: Path) -> None:
    gone = ("decoder.", "joint.") if kept == "ctc" else ("ctc_decoder.",)
    content.tensors = {k: v for k, v in content.tensors.items() if not k.startswith(gone)}
    model = asr.load_model(content.write(tmp_path / "one.gguf"), n_threads=1)
    assert model.decoders == (kept,)


@pytest.mark.parametrize(
    "name",
    [
        "encoder.layers.0.feed_forward1.linear1.weight",
        "decoder.prediction.dec_rnn.lstm.weight_hh_l0",
        "joint.joint_net.2.bias",
        "preprocessor.featurizer.fb",
    ],
)
def test_weights_that_are_not_numbers_are_damage(content: GgufContent, name: str, tmp_path: Path) -> None:
    content.set_array(name, np.full_like(content.array(name), np.nan))
    model = asr.load_model(content.write(tmp_path / "nan.gguf"), n_threads=1)
    noise = np.random.default_rng(1).standard_normal(16000).astype(np.float32)
    with pytest.raises(asr.ModelFormatError, match=r"nan\.gguf is damaged"):
        model.transcribe(0.1 * noise)


# Keys

REQUIRED = [
    "parakeet.vocab_size",
    "parakeet.tokenizer.pieces",
    "parakeet.preprocessor.sample_rate",
    "parakeet.preprocessor.n_mels",
    "parakeet.preprocessor.hop_length",
    "parakeet.encoder.d_model",
    "parakeet.encoder.n_layers",
    "parakeet.encoder.n_heads",
    "parakeet.encoder.conv_kernel",
    "parakeet.encoder.subsampling_conv_channels",
]


@pytest.mark.parametrize("key", REQUIRED)
def test_missing_key(key: str, content: GgufContent, tmp_path: Path) -> None:
    del content.pairs[key]
    refused(content.write(tmp_path / "keys.gguf"))


def test_missing_key_is_named(content: GgufContent, tmp_path: Path) -> None:
    del content.pairs["parakeet.encoder.n_heads"]
    refused(content.write(tmp_path / "keys.gguf"), "parakeet.encoder.n_heads", "missing")


@pytest.mark.parametrize("key", [key for key in REQUIRED if "pieces" not in key])
@pytest.mark.parametrize("wrong", [((8,), "many"), ((6,), 1.5), ((7,), True), ((9, 4), [1, 2]), ((4,), 0)])
def test_wrong_value(key: str, wrong: tuple[Any, Any], content: GgufContent, tmp_path: Path) -> None:
    content.pairs[key] = wrong
    refused(content.write(tmp_path / "keys.gguf"), "parakeet")


@pytest.mark.parametrize(
    ("key", "wrong", "words"),
    [
        ("general.architecture", ((4,), 1), "general.architecture"),
        ("parakeet.encoder.xscaling", ((8,), "yes"), "xscaling"),
        ("parakeet.encoder.n_heads", ((4,), 3), "3 heads"),
        ("parakeet.encoder.n_layers", ((4,), 2**31), "must be 1 to"),
        ("parakeet.encoder.n_layers", ((4,), 1), "more encoder layers"),
        ("parakeet.decoding.max_symbols", ((4,), 2**31), "must be 1 to"),
        ("parakeet.preprocessor.sample_rate", ((4,), 2**31), "must be 1 to"),
        ("parakeet.preprocessor.hop_length", ((4,), 2000), "must not be larger"),
        ("parakeet.encoder.n_layers", ((4,), 3), "3 encoder layers"),
        ("parakeet.encoder.subsampling_factor", ((4,), 4), "subsampling factor 4"),
        ("parakeet.encoder.att_context_style", ((8,), "spiral"), "spiral"),
        ("parakeet.encoder.conv_norm_type", ((8,), "group_norm"), "group_norm"),
        ("parakeet.encoder.self_attention_model", ((8,), "abs_pos"), "abs_pos"),
        ("parakeet.preprocessor.normalize", ((8,), "all_features"), "all_features"),
        ("parakeet.preprocessor.mag_power", ((6,), 1.0), "magnitude power"),
        ("parakeet.preprocessor.n_fft", ((4,), 500), ""),
        ("parakeet.preprocessor.preemph", ((8,), "some"), "preemph"),
        ("parakeet.joint.activation", ((8,), "tanh"), "tanh"),
        ("parakeet.decoding.max_symbols", ((4,), 0), "max_symbols"),
        ("parakeet.tdt.durations", ((9, 5), [0, 1]), "joint.joint_net.2"),
        ("parakeet.tdt.durations", ((8,), "0 1 2"), "durations"),
        ("parakeet.tdt.durations", ((9, 5), [0, 1, 2, 3, -4]), "duration"),
        ("parakeet.blank_id", ((4,), 0), "blank"),
    ],
)
def test_impossible_value(
    key: str, wrong: tuple[Any, Any], words: str, content: GgufContent, tmp_path: Path
) -> None:
    content.pairs[key] = wrong
    refused(content.write(tmp_path / "values.gguf"), words)


@pytest.mark.parametrize("change", [-1, 1])
def test_vocabulary_of_another_size(change: int, content: GgufContent, tmp_path: Path) -> None:
    types, pieces = content.pairs["parakeet.tokenizer.pieces"]
    pieces = pieces[:-1] if change < 0 else [*pieces, "more"]
    content.pairs["parakeet.tokenizer.pieces"] = (types, pieces)
    refused(content.write(tmp_path / "vocab.gguf"), f"{len(pieces)} tokenizer pieces", "vocabulary of")


def test_vocabulary_size_against_the_heads(content: GgufContent, tmp_path: Path) -> None:
    types, size = content.pairs["parakeet.vocab_size"]
    content.pairs["parakeet.vocab_size"] = (types, size + 1)
    content.pairs.pop("parakeet.blank_id", None)
    refused(content.write(tmp_path / "vocab.gguf"), "shape", "expected")
