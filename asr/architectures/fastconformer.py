"""The FastConformer encoder.

Rekesh et al. 2023, "Fast Conformer with Linearly Scalable Attention for Efficient Speech Recognition";
Gulati et al. 2020, "Conformer". NeMo's ``ConformerEncoder``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import ggml
from asr.backend import Backend, CancelSignal, Capture, capture_graph_output, graph_input_tensor
from asr.hyperparameters import Encoder
from asr.loader import ModelLoader
from asr.nn.attention import attention_mask, relative_attention, relative_positions
from asr.nn.convolution import convolution_module, derived_weights, subsampling
from asr.nn.linear import feed_forward, layer_norm

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EncoderStates:
    """What the encoder computes on the way, each [T/8, d_model]: after the subsampling, after every block."""

    subsampling: FloatArray
    layers: tuple[FloatArray, ...]

    @property
    def output(self) -> FloatArray:
        """The encoder's output, which is the last block's."""
        return self.layers[-1]


class FastConformer:
    """The encoder of one model: log-mel frames in, one graph a call.

    ``att_context_size`` is (left, right) in encoder frames, one of ``config.att_contexts``; None takes the
    model's default. Weights are used where ``loader`` keeps them.
    """

    def __init__(
        self, loader: ModelLoader, config: Encoder, att_context_size: tuple[int, int] | None = None
    ) -> None:
        self.loader = loader
        self.config = config
        self.att_context_size = att_context_size or config.att_contexts[0]
        loader.add_derived(derived_weights(loader, config))

    def encode(self, backend: Backend, mel: FloatArray, cancel: CancelSignal | None = None) -> FloatArray:
        """mel [T, n_mels] -> [T/8, d_model]. Raises as :meth:`asr.backend.Backend.compute` does."""
        output = backend.compute(lambda ctx: self._build(ctx, mel)[-1], cancel=cancel)
        return output.reshape(-1, self.config.d_model)

    def encode_states(self, backend: Backend, mel: FloatArray) -> EncoderStates:
        """mel [T, n_mels] -> the output of the subsampling and of every block."""
        captures: list[Capture] = []

        def build(ctx: ggml.Context) -> ggml.Tensor:
            *states, output = self._build(ctx, mel)
            captures.extend(capture_graph_output(state) for state in states)
            return output

        last = backend.compute(build)
        first, *layers = (
            state.reshape(-1, self.config.d_model) for state in (*(c.array for c in captures), last)
        )
        return EncoderStates(first, tuple(layers))

    def _build(self, ctx: ggml.Context, mel: FloatArray) -> list[ggml.Tensor]:
        """Adds the whole encoder to the graph; returns [d, T/8] of the subsampling and of each block."""
        config, loader = self.config, self.loader
        features = graph_input_tensor(ctx, ggml.Type.F32, (config.feat_in, len(mel)), mel)
        x = subsampling(ctx, loader, features, config)  # [d, T/8]
        states = [x]
        n_frames = x.ne[1]
        if config.xscaling:
            x = ggml.scale(ctx, x, math.sqrt(config.d_model))
        table = relative_positions(n_frames, config.d_model)
        positions = graph_input_tensor(ctx, ggml.Type.F32, (config.d_model, len(table)), table)
        visible = attention_mask(n_frames, self.att_context_size, config.att_context_style)
        mask = None
        if visible is not None:
            mask = graph_input_tensor(ctx, ggml.Type.F32, (n_frames, n_frames), visible)
        for index in range(config.n_layers):
            x = self._block(ctx, f"encoder.layers.{index}", x, positions, mask)
            states.append(x)
        return states

    def _block(
        self,
        ctx: ggml.Context,
        name: str,
        x: ggml.Tensor,
        positions: ggml.Tensor,
        mask: ggml.Tensor | None,
    ) -> ggml.Tensor:
        """NeMo's ``ConformerLayer``: two half-step feed-forwards around attention and convolution."""
        config, loader = self.config, self.loader

        y = layer_norm(ctx, loader, f"{name}.norm_feed_forward1", x)
        y = feed_forward(ctx, loader, f"{name}.feed_forward1", y)
        x = ggml.add(ctx, x, ggml.scale(ctx, y, 0.5))

        y = layer_norm(ctx, loader, f"{name}.norm_self_att", x)
        y = relative_attention(ctx, loader, f"{name}.self_attn", y, positions, mask, config.n_heads)
        x = ggml.add(ctx, x, y)

        y = layer_norm(ctx, loader, f"{name}.norm_conv", x)
        y = convolution_module(ctx, loader, f"{name}.conv", y, config)
        x = ggml.add(ctx, x, y)

        y = layer_norm(ctx, loader, f"{name}.norm_feed_forward2", x)
        y = feed_forward(ctx, loader, f"{name}.feed_forward2", y)
        x = ggml.add(ctx, x, ggml.scale(ctx, y, 0.5))

        return layer_norm(ctx, loader, f"{name}.norm_out", x)
