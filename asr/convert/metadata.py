"""The GGUF's key-value pairs: parakeet.cpp's names and types, and a few optional ones of our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from asr.hyperparameters import Encoder, Hyperparameters
from asr.sentencepiece import Piece

Kind = Literal["str", "u32", "i32", "f32", "bool", "str[]", "i32[]", "u8[]"]
Value = str | int | float | bool | Sequence[str] | Sequence[int] | bytes

# LLaMA's numbers, which every GGUF reader shows.
_FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7}


@dataclass(frozen=True, slots=True)
class Entry:
    """One key-value pair with its GGUF type."""

    key: str
    kind: Kind
    value: Value


def build_metadata(
    model: Hyperparameters,
    pieces: Sequence[Piece],
    tokenizer: bytes,
    general: Mapping[str, str],
    file_type: str,
) -> list[Entry]:
    """All pairs but ``general.architecture``, in the order in which they are written.

    :param tokenizer: the SentencePiece model as bytes.
    :param general: texts of the ``general.*`` keys, ``general.name`` among them.
    """
    return [
        *(Entry(key, "str", text) for key, text in general.items()),
        Entry("general.file_type", "u32", _FILE_TYPES[file_type]),
        *([Entry("general.quantization_version", "u32", 2)] if file_type == "q8_0" else []),
        Entry("parakeet.arch", "str", model.arch),
        *_preprocessor(model),
        *_encoder(model.encoder),
        *_streaming(model.encoder),
        *_heads(model),
        *_tokenizer(pieces, tokenizer),
    ]


def _preprocessor(model: Hyperparameters) -> list[Entry]:
    front, at = model.preprocessor, "parakeet.preprocessor."
    return [
        Entry(at + "sample_rate", "u32", front.sample_rate),
        Entry(at + "n_mels", "u32", front.n_mels),
        Entry(at + "n_fft", "u32", front.n_fft),
        Entry(at + "win_length", "u32", front.win_length),
        Entry(at + "hop_length", "u32", front.hop_length),
        Entry(at + "preemph", "f32", front.preemph),
        Entry(at + "mag_power", "f32", front.mag_power),
        Entry(at + "log_zero_guard", "f32", front.log_zero_guard),
        Entry(at + "normalize", "str", front.normalize),
    ]


def _encoder(encoder: Encoder) -> list[Entry]:
    at = "parakeet.encoder."
    left, right = encoder.att_contexts[0]
    entries = [
        Entry(at + "feat_in", "u32", encoder.feat_in),
        Entry(at + "d_model", "u32", encoder.d_model),
        Entry(at + "n_layers", "u32", encoder.n_layers),
        Entry(at + "n_heads", "u32", encoder.n_heads),
        Entry(at + "ff_dim", "u32", encoder.ff_dim),
        Entry(at + "conv_kernel", "u32", encoder.conv_kernel),
        Entry(at + "subsampling_factor", "u32", encoder.subsampling_factor),
        Entry(at + "subsampling_conv_channels", "u32", encoder.subsampling_conv_channels),
        Entry(at + "pos_emb_max_len", "u32", encoder.pos_emb_max_len),
        Entry(at + "conv_norm_type", "str", encoder.conv_norm_type),
        Entry(at + "xscaling", "bool", encoder.xscaling),
        Entry(at + "use_bias", "bool", encoder.use_bias),
        Entry(at + "self_attention_model", "str", encoder.self_attention_model),
        Entry(at + "att_context_left", "i32", left),
        Entry(at + "att_context_right", "i32", right),
        Entry(at + "att_context_style", "str", encoder.att_context_style),
    ]
    if len(encoder.att_contexts) > 1:
        presets = [size for pair in encoder.att_contexts for size in pair]
        entries.append(Entry(at + "att_context_presets", "i32[]", presets))
    return [
        *entries,
        Entry(at + "causal_downsampling", "bool", encoder.causal_downsampling),
        # parakeet.cpp knows causal or symmetric; the two numbers say it for any split of the kernel.
        Entry(at + "conv_causal", "bool", encoder.conv_context == (encoder.conv_kernel - 1, 0)),
        Entry(at + "conv_context_left", "i32", encoder.conv_context[0]),
        Entry(at + "conv_context_right", "i32", encoder.conv_context[1]),
    ]


def _streaming(encoder: Encoder) -> list[Entry]:
    """NeMo's ``streaming_cfg`` for the default preset (``ConformerEncoder.setup_streaming_params``)."""
    if encoder.att_context_style != "chunked_limited":
        return []
    at, factor = "parakeet.streaming.", encoder.subsampling_factor
    left, right = encoder.att_contexts[0]
    chunk = [1 + factor * right, factor + factor * right]  # mel frames: the first chunk, the others
    cache = factor + 1
    return [
        Entry(at + "chunk_size", "i32[]", chunk),
        Entry(at + "shift_size", "i32[]", chunk),
        Entry(at + "pre_encode_cache_size", "i32[]", [0, cache]),
        Entry(at + "cache_drop_size", "i32", 0),
        Entry(at + "last_channel_cache_size", "i32", left if left >= 0 else 10000),
        Entry(at + "valid_out_len", "i32", right + 1),
        Entry(at + "drop_extra_pre_encoded", "i32", 1 + (cache - 1) // factor),
    ]


def _heads(model: Hyperparameters) -> list[Entry]:
    entries = [
        Entry("parakeet.vocab_size", "u32", model.vocab_size),
        Entry("parakeet.blank_id", "u32", model.vocab_size),
    ]
    transducer = model.transducer
    if transducer is None:
        return entries
    entries += [
        Entry("parakeet.decoder.pred_hidden", "u32", transducer.pred_hidden),
        Entry("parakeet.decoder.pred_rnn_layers", "u32", transducer.pred_rnn_layers),
        Entry("parakeet.joint.joint_hidden", "u32", transducer.joint_hidden),
        Entry("parakeet.joint.activation", "str", transducer.activation),
        Entry("parakeet.decoding.max_symbols", "u32", transducer.max_symbols),
    ]
    if transducer.durations:
        entries.append(Entry("parakeet.tdt.durations", "i32[]", list(transducer.durations)))
    return entries


def _tokenizer(pieces: Sequence[Piece], tokenizer: bytes) -> list[Entry]:
    at = "parakeet.tokenizer."
    return [
        Entry(at + "pieces", "str[]", [piece.text for piece in pieces]),
        Entry(at + "types", "i32[]", [piece.type for piece in pieces]),
        Entry(at + "model", "u8[]", tokenizer),
    ]
