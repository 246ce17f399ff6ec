"""One step of an LSTM layer, with PyTorch's weights and order of gates."""

from __future__ import annotations

from typing import NamedTuple

import ggml
from asr.backend import clone_weight
from asr.loader import ModelLoader


class LstmState(NamedTuple):
    """Hidden and cell state of a layer, [n_hidden] each."""

    hidden: ggml.Tensor
    cell: ggml.Tensor


def lstm_input(ctx: ggml.Context, loader: ModelLoader, name: str, layer: int, x: ggml.Tensor) -> ggml.Tensor:
    """The share of the gates that does not depend on the state: x [n_in] -> [4 n_hidden]."""
    return _affine(ctx, loader, name, f"ih_l{layer}", x)


def lstm_cell(
    ctx: ggml.Context, loader: ModelLoader, name: str, layer: int, x: ggml.Tensor, state: LstmState
) -> LstmState:
    """``torch.nn.LSTM`` for one time step: :func:`lstm_input` and the state before -> the state after."""
    # [4 n_hidden]: input, forget, cell, output
    gates = ggml.add(ctx, x, _affine(ctx, loader, name, f"hh_l{layer}", state.hidden))
    n_hidden = state.hidden.ne[0]

    def gate(index: int) -> ggml.Tensor:
        return ggml.view_1d(ctx, gates, n_hidden, index * n_hidden * gates.nb[0])

    kept = ggml.mul(ctx, ggml.sigmoid(ctx, gate(1)), state.cell)
    added = ggml.mul(ctx, ggml.sigmoid(ctx, gate(0)), ggml.tanh(ctx, gate(2)))
    cell = ggml.add(ctx, kept, added)
    hidden = ggml.mul(ctx, ggml.sigmoid(ctx, gate(3)), ggml.tanh(ctx, cell))
    return LstmState(hidden, cell)


def _affine(ctx: ggml.Context, loader: ModelLoader, name: str, kind: str, x: ggml.Tensor) -> ggml.Tensor:
    weight, bias = (clone_weight(ctx, loader, f"{name}.{part}_{kind}") for part in ("weight", "bias"))
    return ggml.add(ctx, ggml.mul_mat(ctx, weight, x), bias)
