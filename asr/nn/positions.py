"""Relative positions, and what each layer's attention makes of them.

Dai et al. 2019, as in NeMo's ``RelPositionalEncoding`` and ``linear_pos``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import ggml
from asr.backend import Backend, graph_input_tensor
from asr.hyperparameters import Encoder
from asr.loader import ModelLoader
from asr.nn.linear import linear

# Tables of a longer utterance than fits here are computed anew with it.
_MOST_BYTES = 64 << 20


def relative_positions(n_frames: int, d_model: int) -> npt.NDArray[np.float32]:
    """Sinusoids of the distances T-1 ... -(T-1): [2T-1, d_model], sine and cosine in turn.

    In float32 from the product on, as NeMo computes them.
    """
    distance = np.arange(n_frames - 1, -n_frames, -1, dtype=np.float32)[:, None]
    rate = np.exp(np.arange(0, d_model, 2, dtype=np.float32) * np.float32(-(math.log(10000.0) / d_model)))
    table = np.empty((2 * n_frames - 1, d_model), np.float32)
    table[:, 0::2] = np.sin(distance * rate)
    table[:, 1::2] = np.cos(distance * rate)
    return table


def project(
    ctx: ggml.Context, loader: ModelLoader, table: npt.NDArray[np.float32]
) -> Callable[[str], ggml.Tensor]:
    """A function: name of an attention -> its projected positions [d, 2T-1], computed in the graph.

    ``table`` is :func:`relative_positions`.
    """
    sinusoids = graph_input_tensor(ctx, ggml.Type.F32, table.shape[::-1], table)
    return lambda name: linear(ctx, loader, f"{name}.linear_pos", sinusoids)


class ProjectedPositions:
    """The projected positions of every layer, kept for the longest utterance so far.

    They do not depend on what is said, and those of a shorter utterance are the middle of a longer one's.
    """

    def __init__(self, loader: ModelLoader, encoder: Encoder) -> None:
        self._loader = loader
        self._encoder = encoder
        self._lock = threading.Lock()
        self._kept: tuple[int, dict[str, ggml.Tensor]] = (0, {})

    def prepare(
        self, backend: Backend, n_frames: int
    ) -> Callable[[ggml.Context], Callable[[str], ggml.Tensor]]:
        """For an utterance of so many encoder frames: what gives a graph the result of :func:`project`."""
        d_model = self._encoder.d_model
        size = self._encoder.n_layers * (2 * n_frames - 1) * d_model * 4
        if not self._loader.fused or size > _MOST_BYTES:
            return lambda ctx: project(ctx, self._loader, relative_positions(n_frames, d_model))
        with self._lock:
            if self._kept[0] < n_frames:
                self._kept = (n_frames, self._compute(backend, n_frames))
            longest, tables = self._kept

        def views(ctx: ggml.Context) -> Callable[[str], ggml.Tensor]:
            def view(name: str) -> ggml.Tensor:
                table = tables[name]
                stride = table.nb[1]
                return ggml.view_2d(
                    ctx, table, d_model, 2 * n_frames - 1, stride, (longest - n_frames) * stride
                )

            return view

        return views

    def _compute(self, backend: Backend, n_frames: int) -> dict[str, ggml.Tensor]:
        d_model = self._encoder.d_model
        names = [f"encoder.layers.{layer}.self_attn" for layer in range(self._encoder.n_layers)]
        context = ggml.Context(len(names) * ggml.tensor_overhead())
        tables = {name: context.new_tensor(ggml.Type.F32, [d_model, 2 * n_frames - 1]) for name in names}
        ggml.alloc_ctx_tensors(context, backend.handle)
        sinusoids = relative_positions(n_frames, d_model)

        def projected(name: str) -> npt.NDArray[np.float32]:
            return backend.compute(lambda ctx: project(ctx, self._loader, sinusoids)(name))

        # One graph a layer: the compute buffer need not hold the results of all.
        for name, table in tables.items():
            table.set(projected(name).reshape(-1, d_model))
        return tables
