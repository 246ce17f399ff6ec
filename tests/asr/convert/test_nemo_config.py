"""From the configuration to the keys: probing, defaults, streaming models, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader

from asr.convert import convert_nemo
from asr.errors import ModelFormatError


def keys(model: Any, folder: Path) -> dict[str, Any]:
    convert_nemo(model.save(folder / "m.nemo"), folder / "m.gguf")
    return {
        name.removeprefix("parakeet."): field.contents()
        for name, field in GGUFReader(folder / "m.gguf").fields.items()
        if name.startswith("parakeet.")
    }


def test_what_the_configuration_leaves_out_is_probed(tiny: Any, tmp_path: Path) -> None:
    complete = keys(tiny, tmp_path)
    for option in (
        "d_model",
        "n_heads",
        "n_layers",
        "subsampling_conv_channels",
        "ff_expansion_factor",
        "feat_in",
    ):
        tiny.set(f"encoder.{option}", None)
    tiny.set("encoder.conv_kernel_size", None)
    tiny.set("preprocessor.features", None)
    tiny.set("preprocessor.n_fft", None)
    assert keys(tiny, tmp_path) == complete


def test_a_pure_ctc_model(tiny: Any, tmp_path: Path) -> None:
    tiny.set("target", "nemo.collections.asr.models.ctc_bpe_models.EncDecCTCModelBPE")
    tiny.set("decoder", tiny.config.pop("aux_ctc")["decoder"])
    del tiny.config["joint"]
    tiny.without("decoder.", "joint.")
    for kind in ("weight", "bias"):
        head = tiny.tensors.pop(f"ctc_decoder.decoder_layers.0.{kind}")
        tiny.tensors[f"decoder.decoder_layers.0.{kind}"] = head
    found = keys(tiny, tmp_path)
    assert found["arch"] == "ctc"
    assert found["vocab_size"] == 6
    assert not {"decoder.pred_hidden", "joint.joint_hidden", "tdt.durations"} & found.keys()
    names = [tensor.name for tensor in GGUFReader(tmp_path / "m.gguf").tensors]
    assert "decoder.decoder_layers.0.weight" in names


def test_an_rnnt_with_two_lstm_layers_and_no_bias(tiny: Any, tmp_path: Path) -> None:
    tiny.set("target", "nemo.collections.asr.models.rnnt_bpe_models.EncDecRNNTBPEModel")
    tiny.set("decoding", {})
    # A training recipe that was started from a TDT one: the joint says that it is none.
    tiny.config["model_defaults"]["tdt_durations"] = [0, 1, 2]
    tiny.without("ctc_decoder.")
    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        lstm = f"decoder.prediction.dec_rnn.lstm.{kind}_l"
        tiny.tensors[f"{lstm}1"] = tiny.tensors[f"{lstm}0"]
    for kind in ("weight", "bias"):
        tiny.tensors[f"joint.joint_net.2.{kind}"] = tiny.tensors[f"joint.joint_net.2.{kind}"][:7]
    modules = ("self_attn.linear", "feed_forward", "conv.pointwise", "conv.depthwise")
    tiny.without(*(f"encoder.layers.0.{name}{end}" for name, end in _biases(tiny, modules)))
    found = keys(tiny, tmp_path)
    assert found["arch"] == "rnnt"
    assert found["encoder.use_bias"] is False
    assert found["decoder.pred_rnn_layers"] == 2
    assert found["decoding.max_symbols"] == 10
    assert "tdt.durations" not in found


def _biases(model: Any, modules: tuple[str, ...]) -> list[tuple[str, str]]:
    prefix = "encoder.layers.0."
    names = [name.removeprefix(prefix) for name in model.tensors if name.startswith(prefix)]
    return [(name, "") for name in names if name.startswith(modules) and name.endswith(".bias")]


def test_a_streaming_model(tiny: Any, tmp_path: Path) -> None:
    tiny.set("encoder.att_context_size", [[70, 1], [70, 13], [70, 0]])
    tiny.set("encoder.att_context_style", "chunked_limited")
    tiny.set("encoder.causal_downsampling", True)
    tiny.set("encoder.conv_context_size", "causal")
    tiny.set("encoder.conv_norm_type", "layer_norm")
    tiny.set("preprocessor.normalize", "NA")
    tiny.without("encoder.layers.0.conv.batch_norm.running", "encoder.layers.0.conv.batch_norm.num")
    # 16 bins -> 9 -> 5 -> 3, where the regular convolutions give 2
    tiny.tensors["encoder.pre_encode.out.weight"] = np.ones((32, 9), np.float32)
    found = keys(tiny, tmp_path)
    expected = {
        "preprocessor.normalize": "NA",
        "encoder.conv_norm_type": "layer_norm",
        "encoder.att_context_style": "chunked_limited",
        "encoder.att_context_left": 70,
        "encoder.att_context_right": 1,
        "encoder.att_context_presets": [70, 1, 70, 13, 70, 0],
        "encoder.causal_downsampling": True,
        "encoder.conv_causal": True,
        "encoder.conv_context_left": 4,
        "encoder.conv_context_right": 0,
        # NeMo 2.7.3's streaming_cfg of an encoder with [70, 1]
        "streaming.chunk_size": [9, 16],
        "streaming.shift_size": [9, 16],
        "streaming.pre_encode_cache_size": [0, 9],
        "streaming.cache_drop_size": 0,
        "streaming.last_channel_cache_size": 70,
        "streaming.valid_out_len": 2,
        "streaming.drop_extra_pre_encoded": 2,
    }
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("encoder.att_context_size", [-1, 128], "needs a window"),
        ("encoder.att_context_size", [0, 0], "needs a window"),
        ("encoder.global_tokens", 2, "global_tokens is 2"),
    ],
)
def test_local_attention_that_is_refused(
    key: str, value: object, message: str, tiny: Any, tmp_path: Path
) -> None:
    tiny.set("encoder.self_attention_model", "rel_pos_local_attn")
    tiny.set("encoder.att_context_size", [128, 128])
    tiny.set(key, value)
    with pytest.raises(ModelFormatError, match=message):
        keys(tiny, tmp_path)


def test_local_attention_and_numbers_written_as_text(tiny: Any, tmp_path: Path) -> None:
    tiny.set("encoder.self_attention_model", "rel_pos_local_attn")
    tiny.set("encoder.att_context_size", [128, 128])
    tiny.set("encoder.conv_context_size", [3, 1])
    tiny.set("preprocessor.normalize", None)
    tiny.set("preprocessor.preemph", None)
    tiny.set("preprocessor.log_zero_guard_value", "1e-5")
    tiny.set("decoding.greedy", {"max_symbols_per_step": 3})
    found = keys(tiny, tmp_path)
    assert found["encoder.self_attention_model"] == "rel_pos_local_attn"
    assert (found["encoder.att_context_left"], found["encoder.att_context_right"]) == (128, 128)
    assert (found["encoder.conv_context_left"], found["encoder.conv_context_right"]) == (3, 1)
    assert found["encoder.conv_causal"] is False
    assert found["preprocessor.normalize"] == "NA"
    assert found["preprocessor.preemph"] == 0.0
    assert found["preprocessor.log_zero_guard"] == pytest.approx(1e-5)
    assert found["decoding.max_symbols"] == 3
    assert "encoder.att_context_presets" not in found


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("target", "nemo.models.EncDecMultiTaskModel", "EncDecMultiTaskModel"),
        ("target", "nemo.x.EncDecHybridRNNTCTCBPEModelWithPrompt", "BPEModelWithPrompt.*prompt"),
        ("target", None, "no model class"),
        ("encoder._target_", "nemo.collections.asr.modules.SqueezeformerEncoder", "SqueezeformerEncoder"),
        ("encoder.subsampling", "striding", "encoder.subsampling is 'striding'"),
        ("encoder.subsampling", None, "encoder.subsampling is 'striding'"),
        ("encoder.subsampling_factor", 4, "encoder.subsampling_factor is 4"),
        ("encoder.feat_out", 48, "encoder.feat_out is 48"),
        ("encoder.feat_in", 80, "encoder.feat_in is 80.*features is 16"),
        ("encoder.self_attention_model", "abs_pos", "self_attention_model is 'abs_pos'"),
        ("encoder.att_context_style", "chunked_limited_with_rc", "is 'chunked_limited_with_rc'"),
        ("encoder.conv_norm_type", "group_norm8", "conv_norm_type is 'group_norm8'"),
        ("encoder.conv_kernel_size", 4, "conv_kernel_size is 4"),
        ("encoder.conv_context_size", [4, 4], "conv_context_size"),
        ("encoder.att_context_size", [1, 2, 3], "att_context_size"),
        ("encoder.global_tokens", 1, "global_tokens is 1"),
        ("encoder.n_heads", 5, "cannot be divided among 5 heads"),
        ("encoder.n_layers", 2000000000, "n_layers"),
        ("encoder.n_layers", "one", "n_layers is 'one'"),
        ("encoder.n_layers", 2, r"encoder\.layers\.1\..* of shape .* is missing"),
        ("encoder.use_bias", False, "variant is not supported"),
        ("encoder.ff_expansion_factor", 4, r"linear1\.weight has the shape \[64, 32\] but needs"),
        ("decoder._target_", "nemo.modules.StatelessTransducerDecoder", "StatelessTransducerDecoder"),
        ("decoder.normalization_mode", "layer", "normalization_mode"),
        ("decoder.blank_as_pad", False, "blank_as_pad is False"),
        ("joint.jointnet.activation", "tanh", "activation is 'tanh'"),
        ("decoding.durations", [0, 1], r"durations \[0, 1\] do not explain"),
        ("decoding.durations", None, "do not explain"),
        ("decoding.big_blank_durations", [2, 4], "multi-blank"),
        ("preprocessor.window", "hamming", "window is 'hamming'"),
        ("preprocessor.mag_power", 1.0, "mag_power is 1.0"),
        ("preprocessor.frame_splicing", 3, "frame_splicing is 3"),
        ("preprocessor.exact_pad", True, "exact_pad is True"),
        ("preprocessor.normalize", "all_features", "normalize is 'all_features'"),
        ("preprocessor.log_zero_guard_type", "clamp", "log_zero_guard_type is 'clamp'"),
        ("preprocessor.n_fft", 500, "n_fft is 500"),
        ("preprocessor.window_size", 0.02, r"window has the shape \[400\] but needs \[320\]"),
        ("preprocessor.window_size", float("inf"), "window_size is inf"),
        ("preprocessor.features", True, "features is True"),
        ("preprocessor", 5, r"window has the shape \[400\] but needs \[320\]"),
        ("encoder", [], "encoder.subsampling is 'striding'"),
        ("tokenizer.type", "agg", "tokenizer.type is 'agg'"),
        ("tokenizer.type", "wpe", "tokenizer.type is 'wpe'"),
        ("joint.vocabulary", ["<unk>", "▁a", "b", "▁", "c", "!"], r"vocabulary\[5\] is '!'"),
        ("joint.vocabulary", ["<unk>"], "vocabulary"),
        ("encoder.d_model", "${encoder.d_model}", "refers to itself"),
    ],
)  # fmt: skip
def test_what_there_is_no_code_for_is_refused(
    tiny: Any, tmp_path: Path, path: str, value: object, says: str
) -> None:
    tiny.set(path, value)
    with pytest.raises(ModelFormatError, match=says):
        keys(tiny, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["m.nemo"]


def test_reduction_is_refused(tiny: Any, tmp_path: Path) -> None:
    tiny.config["encoder"] |= {"reduction": "pooling", "reduction_factor": 2, "reduction_position": 0}
    with pytest.raises(ModelFormatError, match="reduction is 'pooling'"):
        keys(tiny, tmp_path)


def test_a_tensor_that_is_missing_or_of_the_wrong_shape_or_unknown(tiny: Any, tmp_path: Path) -> None:
    name = "encoder.layers.0.self_attn.linear_pos.weight"
    array = tiny.tensors.pop(name)
    with pytest.raises(ModelFormatError, match=r"linear_pos\.weight of shape \[32, 32\] is missing"):
        keys(tiny, tmp_path)
    tiny.tensors[name] = array[:, :16]
    with pytest.raises(
        ModelFormatError, match=r"linear_pos\.weight has the shape \[32, 16\] but needs \[32, 32\]"
    ):
        keys(tiny, tmp_path)
    tiny.tensors[name] = array
    tiny.tensors["encoder.layers.0.adapter_layer.x.weight"] = array
    with pytest.raises(ModelFormatError, match=r"adapter_layer.*not supported"):
        keys(tiny, tmp_path)
    del tiny.tensors["encoder.layers.0.adapter_layer.x.weight"]
    tiny.tensors["loss.table"] = tiny.tensors["spec_augmentation.mask"] = array
    assert keys(tiny, tmp_path)["arch"] == "hybrid_tdt_ctc"
    assert "loss.table" not in {tensor.name for tensor in GGUFReader(tmp_path / "m.gguf").tensors}


def test_a_tokenizer_of_another_size(tiny: Any, tmp_path: Path, torch_format: Any) -> None:
    tiny.tokenizer = torch_format.sentencepiece(("<unk>", "a"))
    with pytest.raises(ModelFormatError, match="2 pieces, but the model's heads have 6"):
        keys(tiny, tmp_path)


@pytest.mark.parametrize(
    "text", [b"[1, 2", b"- a\n- b\n", b"\xff\xfe\x00", b"[" * 100000, b"a: *b", b"? [x]\n: {}: 1"]
)
def test_configurations_that_are_no_mapping(text: bytes) -> None:
    from asr.convert.yaml_config import parse_yaml_config

    with pytest.raises(ModelFormatError, match=r"c\.yaml"):
        parse_yaml_config(text, "c.yaml")
