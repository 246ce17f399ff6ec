"""The FastConformer encoder.

Rekesh et al. 2023, "Fast Conformer with Linearly Scalable Attention for Efficient Speech Recognition";
Gulati et al. 2020, "Conformer". NeMo's ``ConformerEncoder``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import ggml
from asr.backend import Backend, CancelSignal, Capture, capture_graph_output, graph_input_tensor
from asr.hyperparameters import Encoder
from asr.loader import ModelLoader
from asr.nn.attention import Surroundings, attention_mask, reach, relative_attention
from asr.nn.convolution import convolution_module, derived_weights, subsampled_length, subsampling
from asr.nn.linear import feed_forward, layer_norm
from asr.nn.positions import ProjectedPositions

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
        local = config.self_attention_model == "rel_pos_local_attn"
        self._positions = ProjectedPositions(loader, config, self.att_context_size if local else None)

    def encode(self, backend: Backend, mel: FloatArray, cancel: CancelSignal | None = None) -> FloatArray:
        """mel [T, n_mels] -> [T/8, d_model]. Raises as :meth:`asr.backend.Backend.compute` does."""
        build = self._builder(backend, mel)
        return backend.compute(lambda ctx: build(ctx)[-1], cancel=cancel).reshape(-1, self.config.d_model)

    def encode_states(self, backend: Backend, mel: FloatArray) -> EncoderStates:
        """mel [T, n_mels] -> the output of the subsampling and of every block."""
        captures: list[Capture] = []
        build_all = self._builder(backend, mel)

        def build(ctx: ggml.Context) -> ggml.Tensor:
            *states, output = build_all(ctx)
            captures.extend(capture_graph_output(state) for state in states)
            return output

        last = backend.compute(build)
        first, *layers = (
            state.reshape(-1, self.config.d_model) for state in (*(c.array for c in captures), last)
        )
        return EncoderStates(first, tuple(layers))

    def _builder(self, backend: Backend, mel: FloatArray) -> Callable[[ggml.Context], list[ggml.Tensor]]:
        """A function that adds the encoder to a graph: [d, T/8] of the subsampling and of each block."""
        config, loader = self.config, self.loader
        n_frames = subsampled_length(len(mel), config)
        context, style = self.att_context_size, config.att_context_style
        behind, ahead = reach(n_frames, context, style) if loader.fused else (n_frames - 1, n_frames - 1)
        positions = self._positions.prepare(backend, behind, ahead)

        def build(ctx: ggml.Context) -> list[ggml.Tensor]:
            features = graph_input_tensor(ctx, ggml.Type.F32, (config.feat_in, len(mel)), mel)
            x = subsampling(ctx, loader, features, config)  # [d, T/8]
            states = [x]
            if config.xscaling:
                x = ggml.scale(ctx, x, math.sqrt(config.d_model))
            mask = None
            if not loader.fused:
                visible = attention_mask(n_frames, context, style)
                if visible is not None:
                    mask = graph_input_tensor(ctx, ggml.Type.F32, (n_frames, n_frames), visible)
            around = Surroundings(positions(ctx), behind, context, style, mask)
            for index in range(config.n_layers):
                x = self._block(ctx, f"encoder.layers.{index}", x, around)
                states.append(x)
            return states

        return build

    def _block(self, ctx: ggml.Context, name: str, x: ggml.Tensor, around: Surroundings) -> ggml.Tensor:
        """NeMo's ``ConformerLayer``: two half-step feed-forwards around attention and convolution."""
        config, loader = self.config, self.loader
        x = feed_forward(ctx, loader, f"{name}.feed_forward1", x, norm=f"{name}.norm_feed_forward1")
        x = relative_attention(
            ctx, loader, f"{name}.self_attn", x, around, config.n_heads, norm=f"{name}.norm_self_att"
        )
        x = convolution_module(ctx, loader, f"{name}.conv", x, config, norm=f"{name}.norm_conv")
        x = feed_forward(ctx, loader, f"{name}.feed_forward2", x, norm=f"{name}.norm_feed_forward2")
        return layer_norm(ctx, loader, f"{name}.norm_out", x)
