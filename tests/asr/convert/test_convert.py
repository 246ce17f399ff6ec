"""A whole conversion: keys, tensors, types, and what is left behind when it fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader, quants

from asr.convert import convert_nemo
from asr.errors import ModelFormatError, ModelNotFoundError, OutputError

MATRICES = {
    "encoder.layers.0.feed_forward1.linear1.weight",
    "encoder.layers.0.feed_forward1.linear2.weight",
    "encoder.layers.0.feed_forward2.linear1.weight",
    "encoder.layers.0.feed_forward2.linear2.weight",
    "encoder.layers.0.self_attn.linear_q.weight",
    "encoder.layers.0.self_attn.linear_k.weight",
    "encoder.layers.0.self_attn.linear_v.weight",
    "encoder.layers.0.self_attn.linear_out.weight",
    "encoder.layers.0.self_attn.linear_pos.weight",
    "encoder.layers.0.conv.pointwise_conv1.weight",
    "encoder.layers.0.conv.pointwise_conv2.weight",
    "encoder.pre_encode.out.weight",
    "decoder.prediction.embed.weight",
    "decoder.prediction.dec_rnn.lstm.weight_ih_l0",
    "decoder.prediction.dec_rnn.lstm.weight_hh_l0",
    "joint.enc.weight",
    "joint.pred.weight",
    "joint.joint_net.2.weight",
    "ctc_decoder.decoder_layers.0.weight",
}


def converted(model: Any, folder: Path, file_type: str = "f32", mode: str = "w") -> GGUFReader:
    convert_nemo(model.save(folder / "m.nemo", mode), folder / "m.gguf", file_type)
    return GGUFReader(folder / "m.gguf")


def keys(reader: GGUFReader) -> dict[str, Any]:
    return {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}


def test_keys_of_a_hybrid(tiny: Any, tmp_path: Path) -> None:
    found = keys(converted(tiny, tmp_path))
    assert bytes(found.pop("parakeet.tokenizer.model")) == tiny.tokenizer
    assert found.pop("parakeet.preprocessor.preemph") == pytest.approx(0.97)
    assert found.pop("parakeet.preprocessor.log_zero_guard") == 2.0**-24
    assert found == {
        "general.architecture": "parakeet",
        "general.name": "m",
        "general.file_type": 0,
        "parakeet.arch": "hybrid_tdt_ctc",
        "parakeet.preprocessor.sample_rate": 16000,
        "parakeet.preprocessor.n_mels": 16,
        "parakeet.preprocessor.n_fft": 512,
        "parakeet.preprocessor.win_length": 400,
        "parakeet.preprocessor.hop_length": 160,
        "parakeet.preprocessor.mag_power": 2.0,
        "parakeet.preprocessor.normalize": "per_feature",
        "parakeet.encoder.feat_in": 16,
        "parakeet.encoder.d_model": 32,
        "parakeet.encoder.n_layers": 1,
        "parakeet.encoder.n_heads": 4,
        "parakeet.encoder.ff_dim": 64,
        "parakeet.encoder.conv_kernel": 5,
        "parakeet.encoder.subsampling_factor": 8,
        "parakeet.encoder.subsampling_conv_channels": 3,
        "parakeet.encoder.pos_emb_max_len": 5000,
        "parakeet.encoder.conv_norm_type": "batch_norm",
        "parakeet.encoder.xscaling": False,
        "parakeet.encoder.use_bias": True,
        "parakeet.encoder.self_attention_model": "rel_pos",
        "parakeet.encoder.att_context_left": -1,
        "parakeet.encoder.att_context_right": -1,
        "parakeet.encoder.att_context_style": "regular",
        "parakeet.encoder.causal_downsampling": False,
        "parakeet.encoder.conv_causal": False,
        "parakeet.encoder.conv_context_left": 2,
        "parakeet.encoder.conv_context_right": 2,
        "parakeet.vocab_size": 6,
        "parakeet.blank_id": 6,
        "parakeet.decoder.pred_hidden": 32,
        "parakeet.decoder.pred_rnn_layers": 1,
        "parakeet.joint.joint_hidden": 32,
        "parakeet.joint.activation": "relu",
        "parakeet.decoding.max_symbols": 7,
        "parakeet.tdt.durations": [0, 1, 2],
        "parakeet.tokenizer.pieces": ["<unk>", "▁a", "b", "▁", "c", "."],
        "parakeet.tokenizer.types": [2, 1, 1, 1, 1, 1],
    }


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_f32_keeps_every_value(tiny: Any, tmp_path: Path, mode: str) -> None:
    stored = {tensor.name: tensor for tensor in converted(tiny, tmp_path, mode=mode).tensors}
    expected = {name: array for name, array in tiny.tensors.items() if array.shape}
    assert stored.keys() == expected.keys()
    for name, array in expected.items():
        shape = array.shape[:2] if name == "ctc_decoder.decoder_layers.0.weight" else array.shape
        assert stored[name].tensor_type.name == "F32"
        assert tuple(stored[name].shape[::-1]) == shape, name
        np.testing.assert_array_equal(stored[name].data.ravel(), array.ravel(), name)
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in (".nemo", ".gguf")] == []


def test_f16_and_q8_0_store_the_matrices(tiny: Any, tmp_path: Path) -> None:
    half = converted(tiny, tmp_path, "f16")
    assert {tensor.name for tensor in half.tensors if tensor.tensor_type.name == "F16"} == MATRICES
    for tensor in half.tensors:
        array = tiny.tensors[tensor.name]
        as_stored = array.astype(np.float16) if tensor.name in MATRICES else array
        np.testing.assert_array_equal(tensor.data.ravel(), as_stored.ravel(), tensor.name)
        if "pointwise" in tensor.name:
            assert tuple(tensor.shape[::-1]) == array.shape
    assert keys(half)["general.file_type"] == 1

    quantised = converted(tiny, tmp_path, "q8_0")
    kinds = {tensor.name: tensor.tensor_type.name for tensor in quantised.tensors}
    # 3 channels x 2 bins: no whole block of 32 values. The transducer stays at half precision.
    half_precision = {name for name in MATRICES if name.startswith(("decoder.prediction.", "joint."))}
    half_precision.add("encoder.pre_encode.out.weight")
    assert {name for name, kind in kinds.items() if kind == "F16"} == half_precision
    assert {name for name, kind in kinds.items() if kind == "Q8_0"} == MATRICES - half_precision
    for tensor in quantised.tensors:
        if tensor.tensor_type.name == "Q8_0":
            array = tiny.tensors[tensor.name]
            assert tuple(tensor.shape[::-1]) == array.shape[:2]
            values = quants.dequantize(tensor.data, tensor.tensor_type).reshape(array.shape)
            # Half a step of the largest value of a row of 32, whose scale is a half float.
            np.testing.assert_allclose(values, array, atol=np.abs(array).max() * (0.5 / 127 + 2**-11))
    assert keys(quantised)["general.file_type"] == 7


def test_checkpoints_of_other_types_become_float32(tiny: Any, tmp_path: Path) -> None:
    name = "joint.enc.weight"
    tiny.tensors[name] = tiny.tensors[name].astype(np.float16)
    tiny.tensors["joint.enc.bias"] = tiny.tensors["joint.enc.bias"].astype(np.float64)
    stored = {tensor.name: tensor for tensor in converted(tiny, tmp_path).tensors}
    assert stored[name].tensor_type.name == stored["joint.enc.bias"].tensor_type.name == "F32"
    np.testing.assert_array_equal(stored[name].data, tiny.tensors[name].astype(np.float32))


def test_a_joint_trained_without_dropout_gets_the_usual_name(tiny: Any, tmp_path: Path) -> None:
    for kind in ("weight", "bias"):
        tiny.tensors[f"joint.joint_net.1.{kind}"] = tiny.tensors.pop(f"joint.joint_net.2.{kind}")
    stored = {tensor.name: tensor for tensor in converted(tiny, tmp_path).tensors}
    np.testing.assert_array_equal(
        stored["joint.joint_net.2.bias"].data, tiny.tensors["joint.joint_net.1.bias"]
    )
    assert "joint.joint_net.1.bias" not in stored


def test_metadata_and_progress(tiny: Any, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    convert_nemo(
        str(tiny.save(tmp_path / "m.nemo")),
        str(tmp_path / "m.gguf"),
        progress=lambda done, total: calls.append((done, total)),
        metadata={"general.name": "my model", "general.license": "MIT"},
    )
    reader = GGUFReader(tmp_path / "m.gguf")
    assert keys(reader)["general.name"] == "my model"
    assert keys(reader)["general.license"] == "MIT"
    total = len(reader.tensors)
    assert calls == [(done, total) for done in range(total + 1)]
    with pytest.raises(ValueError, match=r"parakeet\.arch"):
        convert_nemo(tmp_path / "m.nemo", tmp_path / "m.gguf", metadata={"parakeet.arch": "ctc"})
    with pytest.raises(ValueError, match="q4_0"):
        convert_nemo(tmp_path / "m.nemo", tmp_path / "m.gguf", "q4_0")


def test_a_value_that_f16_cannot_hold(tiny: Any, tmp_path: Path) -> None:
    tiny.tensors["joint.enc.weight"][3, 4] = 1e6
    with pytest.raises(ModelFormatError, match=r"joint\.enc\.weight.*f16"):
        converted(tiny, tmp_path, "f16")
    assert not (tmp_path / "m.gguf").exists()


class TestTheOutput:
    """Whole or not at all."""

    def test_a_failure_leaves_nothing(self, tiny: Any, tmp_path: Path) -> None:
        source = tiny.save(tmp_path / "m.nemo")
        target = tmp_path / "m.gguf"
        target.write_bytes(b"the old one")

        def interrupt(done: int, total: int) -> None:
            if done == total // 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            convert_nemo(source, target, progress=interrupt)
        assert target.read_bytes() == b"the old one"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m.gguf", "m.nemo"]

    def test_a_full_device(self, tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from gguf import GGUFWriter

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(GGUFWriter, "write_tensor_data", full)
        with pytest.raises(OutputError, match=r"m\.gguf.*No space left"):
            converted(tiny, tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["m.nemo"]

    def test_destinations_that_cannot_be_written(self, tiny: Any, tmp_path: Path) -> None:
        source = tiny.save(tmp_path / "m.nemo")
        (tmp_path / "folder").mkdir()
        (tmp_path / "file").touch()
        for name in ("folder", "missing/m.gguf", "file/m.gguf", os.devnull):
            with pytest.raises(OutputError, match="cannot be written"):
                convert_nemo(source, tmp_path / name)
        with pytest.raises(OutputError, match="is the source"):
            convert_nemo(source, source)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "m.nemo"]

    def test_a_link_stays_a_link(self, tiny: Any, tmp_path: Path) -> None:
        (tmp_path / "real.gguf").touch()
        (tmp_path / "m.gguf").symlink_to("real.gguf")
        converted(tiny, tmp_path)
        assert (tmp_path / "m.gguf").is_symlink()
        assert (tmp_path / "real.gguf").stat().st_size > 1000


class TestTheSource:
    """Files that are no ``.nemo``."""

    def test_missing_or_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ModelNotFoundError, match=r"no\.nemo"):
            convert_nemo(tmp_path / "no.nemo", tmp_path / "m.gguf")
        with pytest.raises(ModelFormatError, match="folder"):
            convert_nemo(tmp_path, tmp_path / "m.gguf")

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"", "empty"),
            (b"GGUF" + bytes(600), "GGUF file"),
            (b"PK\x03\x04" + bytes(600), "zip file"),
            (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
            (b"<!DOCTYPE html>" + bytes(600), "web page"),
            (b"RIFF" + bytes(600), "tar archive"),
            (bytes(10240), "no model_config.yaml"),
            (b"\x1f\x8b" + bytes(100), "gzip"),
        ],
    )
    def test_something_else(self, tmp_path: Path, content: bytes, says: str) -> None:
        (tmp_path / "m.nemo").write_bytes(content)
        with pytest.raises(ModelFormatError, match=says):
            convert_nemo(tmp_path / "m.nemo", tmp_path / "m.gguf")
        assert [path.name for path in tmp_path.iterdir()] == ["m.nemo"]

    @pytest.mark.parametrize("member", ["model_config.yaml", "model_weights.ckpt", "0123_tokenizer.model"])
    def test_without_a_member(self, tiny: Any, tmp_path: Path, member: str) -> None:
        tiny.leave_out = (member,)
        with pytest.raises(ModelFormatError, match=f"there is no {member}"):
            converted(tiny, tmp_path)

    @pytest.mark.parametrize("mode", ["w", "w:gz"])
    def test_truncated_anywhere(self, tiny: Any, tmp_path: Path, mode: str) -> None:
        whole = tiny.save(tmp_path / "m.nemo", mode).read_bytes()
        end = len(whole) - 8 if mode == "w:gz" else whole.rstrip(b"\0").__len__()
        for keep in np.linspace(1, end - 1, 25).astype(int):
            (tmp_path / "m.nemo").write_bytes(whole[:keep])
            with pytest.raises(ModelFormatError):
                convert_nemo(tmp_path / "m.nemo", tmp_path / "m.gguf")
        assert [path.name for path in tmp_path.iterdir()] == ["m.nemo"]

    def test_a_flipped_bit_in_the_weights(self, tiny: Any, tmp_path: Path) -> None:
        path = tiny.save(tmp_path / "m.nemo")
        data = bytearray(path.read_bytes())
        at = data.index(tiny.tensors["joint.enc.weight"].tobytes())
        data[at + 100] ^= 1
        path.write_bytes(data)
        with pytest.raises(ModelFormatError, match=r"joint\.enc\.weight are damaged"):
            convert_nemo(path, tmp_path / "m.gguf")
        assert not (tmp_path / "m.gguf").exists()
