"""What a GGUF file says about its model: metadata and tensor shapes to :class:`Hyperparameters`.

The keys are parakeet.cpp's (``docs/gguf.md``). What a file leaves out is probed from its tensors.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from asr.convert.tensors import expected_tensors
from asr.errors import ModelFormatError
from asr.hyperparameters import Encoder, Hyperparameters, Preprocessor, Transducer
from asr.sentencepiece import TextRules, parse_text_rules
from asr.tokenizer import Tokenizer, derive_types

Shapes = Mapping[str, tuple[int, ...]]
T = TypeVar("T", int, float, str, bool)


class _Metadata:
    """Typed access to the key-value pairs; a wrong type or a missing key names the file and the key."""

    def __init__(self, pairs: Mapping[str, Any], path: Path) -> None:
        self.pairs = pairs
        self.path = path

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        value = self.pairs.get(key)
        if value is None:
            if default is None:
                raise ModelFormatError(f"{self.path}: the key {key} is missing; this is not a complete model")
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ModelFormatError(f"{self.path}: the key {key} is {value!r}, not of type {kind.__name__}")
        return value

    def positive(self, key: str, default: int | None = None, most: int = 1 << 20) -> int:
        value = self.get(key, int, default)
        if not 1 <= value <= most:
            raise ModelFormatError(f"{self.path}: the key {key} is {value}; it must be 1 to {most}")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        value = self.pairs.get(key)
        if value is None:
            return ()
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
            raise ModelFormatError(f"{self.path}: the key {key} is not an array of integers")
        return tuple(int(item) for item in value)


def read_hyperparameters(metadata: Mapping[str, Any], shapes: Shapes, path: Path) -> Hyperparameters:
    """The model's numbers. Raises :class:`asr.ModelFormatError` naming the file and what is wrong."""
    data = _Metadata(metadata, path)
    architecture = data.get("general.architecture", str)
    if architecture != "parakeet" or "parakeet.encoder.d_model" not in metadata:
        raise ModelFormatError(
            f"{path} is a GGUF file of architecture {architecture!r} without parakeet.encoder.* keys; "
            "only Parakeet models in parakeet.cpp's layout can be used"
        )
    vocab_size = data.positive("parakeet.vocab_size")
    if data.get("parakeet.blank_id", int, vocab_size) != vocab_size:
        raise ModelFormatError(f"{path}: the blank must be the class after the vocabulary")
    model = Hyperparameters(
        preprocessor=_preprocessor(data),
        encoder=_encoder(data, shapes),
        transducer=_transducer(data, shapes),
        ctc_head=next((head for head in _CTC_HEADS if f"{head}.weight" in shapes), None),
        vocab_size=vocab_size,
    )
    if model.transducer is None and model.ctc_head is None:
        raise ModelFormatError(f"{path} has neither a transducer nor a CTC head: nothing can be decoded")
    _check_shapes(model, shapes, path)
    return model


_CTC_HEADS = ("ctc_decoder.decoder_layers.0", "decoder.decoder_layers.0")


def read_tokenizer(metadata: Mapping[str, Any], vocab_size: int, path: Path) -> Tokenizer:
    """The vocabulary. Raises :class:`asr.ModelFormatError` when it does not fit the heads."""
    data = _Metadata(metadata, path)
    pieces = metadata.get("parakeet.tokenizer.pieces")
    if not isinstance(pieces, list) or len(pieces) != vocab_size:
        found = len(pieces) if isinstance(pieces, list) else "no"
        raise ModelFormatError(f"{path}: {found} tokenizer pieces for a vocabulary of {vocab_size}")
    if any(not isinstance(piece, str) or not _is_text(piece) for piece in pieces):
        raise ModelFormatError(f"{path}: a tokenizer piece is not text (control characters or not UTF-8)")
    types = data.integers("parakeet.tokenizer.types") or derive_types(pieces)
    if any(not 1 <= kind <= 6 for kind in types):
        raise ModelFormatError(f"{path}: a type in parakeet.tokenizer.types is not 1 to 6")
    model = metadata.get("parakeet.tokenizer.model")
    rules = TextRules()
    if isinstance(model, np.ndarray):
        rules = parse_text_rules(model.tobytes(), f"{path}: parakeet.tokenizer.model")
    try:
        return Tokenizer(
            tuple(pieces), types, rules.add_dummy_prefix, rules.remove_extra_whitespaces, rules.unk_surface
        )
    except ValueError as error:
        raise ModelFormatError(f"{path}: {error}") from None


def _is_text(piece: str) -> bool:
    """No control characters, which would reach the user's terminal, and no lone surrogates (broken UTF-8)."""
    return piece.isprintable() or not any(unicodedata.category(char) in ("Cc", "Cs") for char in piece)


def _preprocessor(data: _Metadata) -> Preprocessor:
    at = "parakeet.preprocessor."
    normalize = data.get(at + "normalize", str, "per_feature")
    front = Preprocessor(
        sample_rate=data.positive(at + "sample_rate", most=768_000),
        n_mels=data.positive(at + "n_mels"),
        n_fft=data.positive(at + "n_fft"),
        win_length=data.positive(at + "win_length"),
        hop_length=data.positive(at + "hop_length"),
        preemph=data.get(at + "preemph", float, 0.97),
        mag_power=data.get(at + "mag_power", float, 2.0),
        log_zero_guard=data.get(at + "log_zero_guard", float, 2.0**-24),
        normalize="NA" if normalize in ("NA", "None", "none", "") else normalize,
    )
    if front.normalize not in ("NA", "per_feature"):
        raise ModelFormatError(f"{data.path}: normalisation {front.normalize!r} is not supported")
    if front.mag_power != 2.0:
        raise ModelFormatError(f"{data.path}: magnitude power {front.mag_power} is not supported, only 2.0")
    if not front.hop_length <= front.win_length <= front.n_fft:
        raise ModelFormatError(
            f"{data.path}: hop length {front.hop_length}, window {front.win_length} and FFT {front.n_fft} "
            "must not be larger than the next"
        )
    if not (0 < front.log_zero_guard < 1 and 0 <= front.preemph < 1):
        raise ModelFormatError(
            f"{data.path}: log zero guard {front.log_zero_guard} or pre-emphasis {front.preemph} is wrong"
        )
    return front


def _encoder(data: _Metadata, shapes: Shapes) -> Encoder:
    at = "parakeet.encoder."
    kernel = data.positive(at + "conv_kernel")
    causal = data.get(at + "conv_causal", bool, False)
    left = data.get(at + "conv_context_left", int, kernel - 1 if causal else (kernel - 1) // 2)
    contexts = data.integers(at + "att_context_presets")
    pairs = tuple(zip(contexts[::2], contexts[1::2], strict=False))
    default = (data.get(at + "att_context_left", int, -1), data.get(at + "att_context_right", int, -1))
    encoder = Encoder(
        feat_in=data.positive(at + "feat_in"),
        d_model=data.positive(at + "d_model"),
        n_layers=data.positive(at + "n_layers"),
        n_heads=data.positive(at + "n_heads"),
        ff_dim=data.positive(at + "ff_dim"),
        conv_kernel=kernel,
        conv_context=(left, data.get(at + "conv_context_right", int, kernel - 1 - left)),
        conv_norm_type=data.get(at + "conv_norm_type", str, "batch_norm"),
        subsampling_factor=data.positive(at + "subsampling_factor", 8),
        subsampling_conv_channels=data.positive(at + "subsampling_conv_channels"),
        causal_downsampling=data.get(at + "causal_downsampling", bool, False),
        pos_emb_max_len=data.positive(at + "pos_emb_max_len", 5000),
        xscaling=data.get(at + "xscaling", bool, True),
        use_bias="encoder.layers.0.feed_forward1.linear1.bias" in shapes,
        self_attention_model=data.get(at + "self_attention_model", str, "rel_pos"),
        att_contexts=(default, *(pair for pair in pairs if pair != default)),
        att_context_style=data.get(at + "att_context_style", str, "regular"),
    )
    _check_encoder(encoder, data.path)
    # Every number of the file may be wrong: nothing is made so many times over before the tensors agree.
    if f"encoder.layers.{encoder.n_layers - 1}.norm_out.weight" not in shapes:
        raise ModelFormatError(f"{data.path}: tensors of its {encoder.n_layers} encoder layers are missing")
    return encoder


def _check_encoder(encoder: Encoder, path: Path) -> None:
    checks = {
        f"subsampling factor {encoder.subsampling_factor}": encoder.subsampling_factor == 8,
        f"attention {encoder.self_attention_model!r}": encoder.self_attention_model
        in ("rel_pos", "rel_pos_local_attn"),
        f"attention context style {encoder.att_context_style!r}": encoder.att_context_style
        in ("regular", "chunked_limited"),
        f"convolution norm {encoder.conv_norm_type!r}": encoder.conv_norm_type
        in ("batch_norm", "layer_norm"),
        f"attention context {encoder.att_contexts}": all(
            min(context) >= (0 if encoder.self_attention_model == "rel_pos_local_attn" else -1)
            for context in encoder.att_contexts
        ),
        f"{encoder.n_heads} heads for width {encoder.d_model}": encoder.d_model % encoder.n_heads == 0,
        f"odd width {encoder.d_model}": encoder.d_model % 2 == 0,
        f"convolution context {encoder.conv_context} for kernel {encoder.conv_kernel}": min(
            encoder.conv_context
        )
        >= 0
        and sum(encoder.conv_context) == encoder.conv_kernel - 1,
    }
    for what, supported in checks.items():
        if not supported:
            raise ModelFormatError(f"{path}: {what} is not supported")


def _transducer(data: _Metadata, shapes: Shapes) -> Transducer | None:
    """Read from the tensors where they say it: hidden sizes, LSTM layers."""
    embedding = shapes.get("decoder.prediction.embed.weight")
    joint = shapes.get("joint.enc.weight")
    if embedding is None and joint is None:
        return None
    if embedding is None or joint is None or len(embedding) != 2:
        raise ModelFormatError(
            f"{data.path}: the transducer is incomplete: prediction network or joint missing"
        )
    layers = 0
    while f"decoder.prediction.dec_rnn.lstm.weight_ih_l{layers}" in shapes:
        layers += 1
    activation = data.get("parakeet.joint.activation", str, "relu")
    if activation != "relu":
        raise ModelFormatError(f"{data.path}: joint activation {activation!r} is not supported, only relu")
    durations = data.integers("parakeet.tdt.durations")
    if any(not 0 <= duration <= 1000 for duration in durations) or (durations and not any(durations)):
        raise ModelFormatError(f"{data.path}: parakeet.tdt.durations {list(durations)} make no sense")
    return Transducer(
        pred_hidden=embedding[-1],
        pred_rnn_layers=layers,
        joint_hidden=joint[0],
        activation=activation,
        joint_out="joint.joint_net.2",
        max_symbols=data.positive("parakeet.decoding.max_symbols", 10, most=10_000),
        durations=durations,
    )


def _check_shapes(model: Hyperparameters, shapes: Shapes, path: Path) -> None:
    n_layers = model.encoder.n_layers
    if any(name.startswith(f"encoder.layers.{n_layers}.") for name in shapes):
        raise ModelFormatError(f"{path}: the file has more encoder layers than the {n_layers} it says")
    for name, expected in expected_tensors(model).items():
        found = shapes.get(name)
        if found is None:
            raise ModelFormatError(f"{path}: the tensor {name} of shape {list(expected)} is missing")
        # Dimensions of 1 come and go: ggml drops leading ones, quantised files store 1x1 kernels as matrices.
        if [n for n in found if n != 1] != [n for n in expected if n != 1]:
            raise ModelFormatError(
                f"{path}: the tensor {name} has shape {list(found)}, expected {list(expected)}"
            )
