"""The convolution module of a Conformer block and the x8 subsampling in front of the encoder.

Both keep the features first: an activation is [channels, T] or [channels, frequency, T], so that 1x1
convolutions are matrix products and nothing is transposed in between. Depthwise kernels are stored transposed
for that (:func:`derived_weights`), with batch norm folded in.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import asr._core as _core
import ggml
from asr.backend import clone_weight, clone_weight_opt, weight_to_host_f32
from asr.errors import ModelFormatError
from asr.hyperparameters import Encoder
from asr.loader import ModelLoader
from asr.nn.linear import fused, layer_norm, linear

BATCH_NORM_EPS = 1e-5  # torch.nn.BatchNorm1d's default, which NeMo keeps

# Suffixes of the weights that derived_weights adds beside a depthwise convolution's own.
_KERNEL = ".channels_last.weight"
_BIAS = ".channels_last.bias"


def derived_weights(loader: ModelLoader, encoder: Encoder) -> dict[str, npt.NDArray[np.float32]]:
    """Depthwise kernels [channels, taps...] transposed to [taps..., channels], batch norm folded in.

    In evaluation mode batch norm is y = (x - mean) * weight / sqrt(var + eps) + bias, an affine function of
    each channel, as the depthwise convolution before it is.
    """
    derived: dict[str, npt.NDArray[np.float32]] = {}
    for index in (0, 2, 5):
        name = f"encoder.pre_encode.conv.{index}"
        kernel = weight_to_host_f32(loader, f"{name}.weight")
        channels = encoder.subsampling_conv_channels
        derived[name + _KERNEL] = np.moveaxis(kernel.reshape(channels, 3, 3), 0, -1)
    for layer in range(encoder.n_layers):
        name = f"encoder.layers.{layer}.conv"
        depthwise = f"{name}.depthwise_conv"
        kernel = weight_to_host_f32(loader, f"{depthwise}.weight").reshape(
            encoder.d_model, encoder.conv_kernel
        )
        bias = np.zeros(encoder.d_model, np.float32)
        if f"{depthwise}.bias" in loader:
            bias = weight_to_host_f32(loader, f"{depthwise}.bias").reshape(-1)
        if encoder.conv_norm_type == "batch_norm":
            kernel, bias = _fold_batch_norm(loader, f"{name}.batch_norm", kernel, bias)
        derived[depthwise + _KERNEL] = kernel.T
        derived[depthwise + _BIAS] = bias
    return derived


def _fold_batch_norm(
    loader: ModelLoader, name: str, kernel: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    weight, shift, mean, var = (
        weight_to_host_f32(loader, f"{name}.{part}").reshape(-1).astype(np.float64)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    if var.min() < 0:
        raise ModelFormatError(f"{loader.path} is damaged: {name}.running_var has negative values")
    scale = weight / np.sqrt(var + BATCH_NORM_EPS)
    folded_bias = (bias - mean) * scale + shift
    return (kernel * scale[:, None]).astype(np.float32), folded_bias.astype(np.float32)


def convolution_module(
    ctx: ggml.Context, loader: ModelLoader, name: str, x: ggml.Tensor, encoder: Encoder, *, norm: str
) -> ggml.Tensor:
    """NeMo's ``ConformerConvolution`` with its norm and residual: x [d, T] -> x + convolution(norm(x))."""
    y = linear(ctx, loader, f"{name}.pointwise_conv1", x, norm=norm, activation="gated")  # [d, T]
    normed = encoder.conv_norm_type == "layer_norm"
    y = _depthwise(ctx, loader, f"{name}.depthwise_conv", y, encoder.conv_context, silu=not normed)
    if normed:
        y = ggml.silu(ctx, layer_norm(ctx, loader, f"{name}.batch_norm", y))  # NeMo's name for either norm
    return linear(ctx, loader, f"{name}.pointwise_conv2", y, residual=x)


def _depthwise(
    ctx: ggml.Context,
    loader: ModelLoader,
    name: str,
    x: ggml.Tensor,
    context: tuple[int, int],
    *,
    silu: bool = False,
) -> ggml.Tensor:
    """Depthwise convolution over time with ``context`` frames on the left and right: [d, T] -> [d, T]."""
    left, right = context
    kernel, bias = (clone_weight(ctx, loader, name + part) for part in (_KERNEL, _BIAS))  # [d, K], [d]
    if fused(loader, x):
        return _core.depthwise(ctx, x, kernel, bias, left=left, right=right, silu=silu)
    padding = left
    # Of a single frame ggml could not tell which layout it has, so it gets its padding here too.
    if left != right or x.ne[1] == 1:
        x = ggml.pad_ext(ctx, x, 0, 0, left, right, 0, 0, 0, 0)
        padding = 0
    d, n_frames = x.ne[:2]
    # Time is the image's height and its width is 1. ggml takes a layout for channels-last when its strides
    # grow from channel to width to height; a width of 1 may have any stride, so it is given one in between.
    image = ggml.permute(ctx, ggml.view_3d(ctx, x, d, 1, n_frames, 2 * x.nb[0], x.nb[1], 0), 2, 0, 1, 3)
    kernel = ggml.permute(ctx, ggml.reshape_4d(ctx, kernel, d, 1, 1, kernel.ne[1]), 3, 2, 0, 1)
    y = ggml.conv_2d_dw_direct(ctx, kernel, image, 1, 1, 0, padding, 1, 1)
    y = ggml.permute(ctx, y, 1, 2, 0, 3)  # [d, 1, T] again, contiguous
    y = ggml.reshape_2d(ctx, y, d, y.ne[2])
    y = ggml.add(ctx, y, bias)
    return ggml.silu(ctx, y) if silu else y


def subsampled_length(n_frames: int, encoder: Encoder) -> int:
    """How many frames :func:`subsampling` makes of so many of log-mel."""
    for _ in range(3):
        n_frames = n_frames // 2 + 1 if encoder.causal_downsampling else (n_frames - 1) // 2 + 1
    return n_frames


def subsampling(ctx: ggml.Context, loader: ModelLoader, mel: ggml.Tensor, encoder: Encoder) -> ggml.Tensor:
    """NeMo's ``ConvSubsampling`` with ``dw_striding``, factor 8: mel [n_mels, T] -> [d, ceil(T/8)].

    Three convolutions of kernel 3 and stride 2 over time and frequency, the second and third split into
    depthwise and 1x1, ReLU after each. Causal subsampling pads two before and one after, in both directions
    (``CausalConv2D``), and gives T//8 + 1 frames.
    """
    name = "encoder.pre_encode.conv"
    causal = encoder.causal_downsampling

    def pad(t: ggml.Tensor, first: int) -> ggml.Tensor:  # frequency is dimension `first`, time the next
        if not causal:
            return t
        before_after = [0, 0] * first + [2, 1, 2, 1] + [0, 0] * (2 - first)
        return ggml.pad_ext(ctx, t, *before_after)

    channels = encoder.subsampling_conv_channels
    padding = 0 if causal else 1
    if loader.fused:
        x = _core.first_convolution(ctx, mel, *_kernel_and_bias(ctx, loader, f"{name}.0"), causal=causal)
    else:
        kernel = clone_weight(ctx, loader, f"{name}.0.weight")  # [3, 3, 1, C]
        patches = ggml.im2col(ctx, kernel, pad(mel, 0), 2, 2, padding, padding, 1, 1, True, ggml.Type.F32)
        x = ggml.mul_mat(ctx, ggml.reshape_2d(ctx, kernel, 9, channels), patches)  # [C, F/2, T/2]
        x = ggml.relu(ctx, _add_bias(ctx, loader, f"{name}.0.bias", x))
    for depthwise, pointwise in ((2, 3), (5, 6)):
        part = f"{name}.{depthwise}"
        if loader.fused:
            x = _core.strided_depthwise(ctx, x, *_kernel_and_bias(ctx, loader, part), causal=causal)
        else:
            x = _strided_depthwise(ctx, loader, part, pad(x, 1), padding)
            x = _add_bias(ctx, loader, f"{part}.bias", x)
        x = linear(ctx, loader, f"{name}.{pointwise}", x, activation="relu")
    # The linear layer takes channel by channel, each with its frequencies.
    _, n_bands, n_frames, _ = x.ne
    by_channel = ggml.cont(ctx, ggml.permute(ctx, x, 1, 0, 2, 3))  # [F/8, C, T/8]
    flat = ggml.reshape_2d(ctx, by_channel, n_bands * channels, n_frames)
    return linear(ctx, loader, "encoder.pre_encode.out", flat)


def _strided_depthwise(
    ctx: ggml.Context, loader: ModelLoader, name: str, x: ggml.Tensor, padding: int
) -> ggml.Tensor:
    """Kernel 3x3, stride 2: [C, F, T] -> [C, F/2, T/2]."""
    channels = x.ne[0]
    kernel = clone_weight(ctx, loader, name + _KERNEL)  # [C, 3, 3]
    kernel = ggml.permute(ctx, ggml.reshape_4d(ctx, kernel, channels, 1, 3, 3), 3, 2, 0, 1)
    image = ggml.permute(ctx, x, 2, 0, 1, 3)  # [F, T, C]
    y = ggml.conv_2d_dw_direct(ctx, kernel, image, 2, 2, padding, padding, 1, 1)
    return ggml.permute(ctx, y, 1, 2, 0, 3)


def _kernel_and_bias(
    ctx: ggml.Context, loader: ModelLoader, name: str
) -> tuple[ggml.Tensor, ggml.Tensor | None]:
    return clone_weight(ctx, loader, name + _KERNEL), clone_weight_opt(ctx, loader, f"{name}.bias")


def _add_bias(ctx: ggml.Context, loader: ModelLoader, name: str, x: ggml.Tensor) -> ggml.Tensor:
    bias = clone_weight_opt(ctx, loader, name)
    return x if bias is None else ggml.add(ctx, x, bias)
