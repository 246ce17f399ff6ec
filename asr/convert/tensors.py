"""Which tensors a model has to have, with their shapes, and how each one is stored in the GGUF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from asr.errors import ModelFormatError
from asr.hyperparameters import Encoder, Hyperparameters, Transducer

Shape = tuple[int, ...]
FileType = Literal["f32", "f16", "q8_0"]

# Parts of a state dict that inference does not use: the loss and the metrics that NeMo hangs onto the joint,
# and the table of positions that old versions saved.
_IGNORED = ("joint._", "encoder.pos_enc.")
_MODEL = ("encoder.", "decoder.", "joint.", "ctc_decoder.", "preprocessor.featurizer.")

_TRANSDUCER = ("decoder.prediction.", "joint.")

_MATMULS = (
    "linear1.weight",
    "linear2.weight",
    "linear_q.weight",
    "linear_k.weight",
    "linear_v.weight",
    "linear_out.weight",
    "linear_pos.weight",
    "pointwise_conv1.weight",
    "pointwise_conv2.weight",
    "encoder.pre_encode.out.weight",
    "decoder.prediction.embed.weight",
    "joint.enc.weight",
    "joint.pred.weight",
    "joint.joint_net.2.weight",
    "decoder_layers.0.weight",
)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of the output: its name there and in the checkpoint, its type and its numpy shape there."""

    name: str
    source: str
    type: FileType
    shape: Shape


def plan_tensors(
    model: Hyperparameters, found: Mapping[str, Shape], file_type: FileType, label: str
) -> list[StoredTensor]:
    """Checks the checkpoint's tensors against the model and decides how each is stored.

    :param found: shapes of the checkpoint's tensors by name.
    :param label: names the checkpoint in messages.
    :return: in the order of the computation.
    :raises ModelFormatError: a tensor is missing, has another shape than the configuration gives it, or
        belongs to a part of the model that there is no code for.
    """
    expected = expected_tensors(model)
    for name, shape in expected.items():
        if name not in found:
            raise ModelFormatError(f"{label}: the tensor {name} of shape {list(shape)} is missing")
        if found[name] != shape:
            raise ModelFormatError(
                f"{label}: {name} has the shape {list(found[name])} but needs {list(shape)}"
            )
    for name, shape in found.items():
        if name not in expected and shape and name.startswith(_MODEL) and not name.startswith(_IGNORED):
            raise ModelFormatError(
                f"{label}: there is a tensor {name} of shape {list(shape)} that a model with this "
                "configuration does not have; this variant is not supported"
            )
    return [_store(name, shape, model, file_type) for name, shape in expected.items()]


def expected_tensors(model: Hyperparameters) -> dict[str, Shape]:
    """Names and PyTorch shapes of all tensors that the computation needs."""
    front, encoder = model.preprocessor, model.encoder
    shapes: dict[str, Shape] = {
        "preprocessor.featurizer.fb": (1, front.n_mels, front.n_fft // 2 + 1),
        "preprocessor.featurizer.window": (front.win_length,),
    }
    shapes |= _subsampling(encoder)
    for index in range(encoder.n_layers):
        shapes |= {f"encoder.layers.{index}.{name}": shape for name, shape in _layer(encoder).items()}
    if model.transducer is not None:
        shapes |= _transducer(model.transducer, encoder.d_model, model.vocab_size)
    if model.ctc_head is not None:
        shapes[f"{model.ctc_head}.weight"] = (model.vocab_size + 1, encoder.d_model, 1)
        shapes[f"{model.ctc_head}.bias"] = (model.vocab_size + 1,)
    return shapes


def _subsampling(encoder: Encoder) -> dict[str, Shape]:
    """Conv2d kernels [out, in, time, frequency]; conv.2 and conv.5 are depthwise, conv.3 and conv.6 1x1."""
    channels = encoder.subsampling_conv_channels
    shapes: dict[str, Shape] = {}
    for index in (0, 2, 3, 5, 6):
        kernel = (channels, channels, 1, 1) if index in (3, 6) else (channels, 1, 3, 3)
        shapes[f"encoder.pre_encode.conv.{index}.weight"] = kernel
        shapes[f"encoder.pre_encode.conv.{index}.bias"] = (channels,)
    shapes["encoder.pre_encode.out.weight"] = (encoder.d_model, channels * encoder.subsampled_features)
    shapes["encoder.pre_encode.out.bias"] = (encoder.d_model,)
    return shapes


def _layer(encoder: Encoder) -> dict[str, Shape]:
    width, inner, heads = encoder.d_model, encoder.ff_dim, encoder.n_heads
    shapes: dict[str, Shape] = {}

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (width,)

    def affine(name: str, *shape: int) -> None:
        shapes[f"{name}.weight"] = shape
        if encoder.use_bias:
            shapes[f"{name}.bias"] = shape[:1]

    norm("norm_feed_forward1")
    affine("feed_forward1.linear1", inner, width)
    affine("feed_forward1.linear2", width, inner)
    norm("norm_self_att")
    for projection in ("q", "k", "v", "out"):
        affine(f"self_attn.linear_{projection}", width, width)
    shapes["self_attn.linear_pos.weight"] = (width, width)
    shapes["self_attn.pos_bias_u"] = shapes["self_attn.pos_bias_v"] = (heads, width // heads)
    norm("norm_conv")
    affine("conv.pointwise_conv1", 2 * width, width, 1)
    affine("conv.depthwise_conv", width, 1, encoder.conv_kernel)
    norm("conv.batch_norm")  # called so for a layer norm too
    if encoder.conv_norm_type == "batch_norm":
        shapes["conv.batch_norm.running_mean"] = shapes["conv.batch_norm.running_var"] = (width,)
    affine("conv.pointwise_conv2", width, width, 1)
    norm("norm_feed_forward2")
    affine("feed_forward2.linear1", inner, width)
    affine("feed_forward2.linear2", width, inner)
    norm("norm_out")
    return shapes


def _transducer(transducer: Transducer, d_model: int, vocab_size: int) -> dict[str, Shape]:
    hidden, joint = transducer.pred_hidden, transducer.joint_hidden
    shapes: dict[str, Shape] = {"decoder.prediction.embed.weight": (vocab_size + 1, hidden)}
    for layer in range(transducer.pred_rnn_layers):
        lstm = "decoder.prediction.dec_rnn.lstm."
        shapes[f"{lstm}weight_ih_l{layer}"] = shapes[f"{lstm}weight_hh_l{layer}"] = (4 * hidden, hidden)
        shapes[f"{lstm}bias_ih_l{layer}"] = shapes[f"{lstm}bias_hh_l{layer}"] = (4 * hidden,)
    shapes["joint.enc.weight"], shapes["joint.enc.bias"] = (joint, d_model), (joint,)
    shapes["joint.pred.weight"], shapes["joint.pred.bias"] = (joint, hidden), (joint,)
    outputs = vocab_size + 1 + len(transducer.durations)
    shapes[f"{transducer.joint_out}.weight"] = (outputs, joint)
    shapes[f"{transducer.joint_out}.bias"] = (outputs,)
    return shapes


def _store(source: str, shape: Shape, model: Hyperparameters, file_type: FileType) -> StoredTensor:
    name = source
    if model.transducer is not None and source.startswith(f"{model.transducer.joint_out}."):
        name = f"joint.joint_net.2.{source.rpartition('.')[2]}"
    if model.ctc_head is not None and source == f"{model.ctc_head}.weight":
        shape = shape[:2]
    if file_type == "f32" or not is_matmul(name):
        return StoredTensor(name, source, "f32", shape)
    if file_type == "f16":
        return StoredTensor(name, source, "f16", shape)
    # A 1x1 convolution is a matrix; ggml quantises along the last axis, so the 1 has to go.
    matrix = shape[:2]
    # Blocks have 32 values along a row. The transducer feeds its tokens back, so that one flipped token
    # changes those after it; its matrices are a few percent of the file and stay at half precision.
    quantise = matrix[1] % 32 == 0 and not name.startswith(_TRANSDUCER)
    return StoredTensor(name, source, "q8_0" if quantise else "f16", matrix)


def is_matmul(name: str) -> bool:
    """Whether a tensor is the left operand of a matrix product (or the embedding, which is a row of one)."""
    return name.endswith(_MATMULS) or ".lstm.weight_" in name
