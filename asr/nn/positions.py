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


def relative_positions(
    behind: int, ahead: int, d_model: int, window: tuple[int, int] | None = None
) -> npt.NDArray[np.float32]:
    """Sinusoids of the distances ``behind`` ... -``ahead``: [behind + 1 + ahead, d_model], sine and cosine.

    In float32 from the product on, as NeMo computes them. ``window``: (left, right) of local attention. Its
    ``RelPositionMultiHeadAttentionLongformer`` lays the positions of an uneven window from its two ends, as
    if each side were as wide as the wider one: on the narrower side they are those of other distances, and
    some have none. Models are trained with that, so it is the same here.
    """
    distance = np.arange(behind, -ahead - 1, -1, dtype=np.float32)
    known = np.ones(len(distance), bool)
    if window is not None:
        left, right = window
        wider = max(window)
        column = wider - distance  # in NeMo's band of 2 * wider + 1 keys
        near_start, near_end = column < left, column >= 2 * wider - right
        distance = distance - np.where(near_start, wider - left, 0) + np.where(near_end, wider - right, 0)
        known = near_start | near_end
    distance = distance[:, None].astype(np.float32)
    rate = np.exp(np.arange(0, d_model, 2, dtype=np.float32) * np.float32(-(math.log(10000.0) / d_model)))
    table = np.empty((len(distance), d_model), np.float32)
    table[:, 0::2] = np.sin(distance * rate)
    table[:, 1::2] = np.cos(distance * rate)
    table[~known] = 0
    return table


def project(
    ctx: ggml.Context, loader: ModelLoader, table: npt.NDArray[np.float32]
) -> Callable[[str], ggml.Tensor]:
    """A function: name of an attention -> its projected positions [d, len(table)], computed in the graph.

    ``table`` is :func:`relative_positions`.
    """
    sinusoids = graph_input_tensor(ctx, ggml.Type.F32, table.shape[::-1], table)
    return lambda name: linear(ctx, loader, f"{name}.linear_pos", sinusoids)


class ProjectedPositions:
    """The projected positions of every layer, kept for the longest distances so far.

    They do not depend on what is said, and those of a shorter utterance are the middle of a longer one's.
    """

    def __init__(self, loader: ModelLoader, encoder: Encoder, window: tuple[int, int] | None = None) -> None:
        self._loader = loader
        self._encoder = encoder
        self._window = window
        self._lock = threading.Lock()
        self._reach = (-1, -1)
        self._tables: dict[str, ggml.Tensor] = {}

    def prepare(
        self, backend: Backend, behind: int, ahead: int
    ) -> Callable[[ggml.Context], Callable[[str], ggml.Tensor]]:
        """For the distances ``behind`` ... -``ahead``: what gives a graph the result of :func:`project`."""
        d_model = self._encoder.d_model
        n_rows = behind + 1 + ahead
        if not self._loader.fused or self._encoder.n_layers * n_rows * d_model * 4 > _MOST_BYTES:
            sinusoids = relative_positions(behind, ahead, d_model, self._window)
            return lambda ctx: project(ctx, self._loader, sinusoids)
        with self._lock:
            if self._reach[0] < behind or self._reach[1] < ahead:
                reach = (max(behind, self._reach[0]), max(ahead, self._reach[1]))
                self._tables = self._compute(backend, *reach)
                self._reach = reach
            furthest, tables = self._reach[0], self._tables

        def views(ctx: ggml.Context) -> Callable[[str], ggml.Tensor]:
            def view(name: str) -> ggml.Tensor:
                table = tables[name]
                stride = table.nb[1]
                return ggml.view_2d(ctx, table, d_model, n_rows, stride, (furthest - behind) * stride)

            return view

        return views

    def _compute(self, backend: Backend, behind: int, ahead: int) -> dict[str, ggml.Tensor]:
        d_model = self._encoder.d_model
        names = [f"encoder.layers.{layer}.self_attn" for layer in range(self._encoder.n_layers)]
        context = ggml.Context(len(names) * ggml.tensor_overhead())
        tables = {name: context.new_tensor(ggml.Type.F32, [d_model, behind + 1 + ahead]) for name in names}
        ggml.alloc_ctx_tensors(context, backend.handle)
        sinusoids = relative_positions(behind, ahead, d_model, self._window)

        def projected(name: str) -> npt.NDArray[np.float32]:
            return backend.compute(lambda ctx: project(ctx, self._loader, sinusoids)(name))

        # One graph a layer: the compute buffer need not hold the results of all.
        for name, table in tables.items():
            table.set(projected(name).reshape(-1, d_model))
        return tables
