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


def lstm_cell(
    ctx: ggml.Context, loader: ModelLoader, name: str, layer: int, x: ggml.Tensor, state: LstmState
) -> LstmState:
    """``torch.nn.LSTM`` for one time step: x [n_in] and the state before -> the state after."""

    def affine(kind: str, value: ggml.Tensor) -> ggml.Tensor:
        weight = clone_weight(ctx, loader, f"{name}.weight_{kind}_l{layer}")
        return ggml.add(
            ctx, ggml.mul_mat(ctx, weight, value), clone_weight(ctx, loader, f"{name}.bias_{kind}_l{layer}")
        )

    gates = ggml.add(
        ctx, affine("ih", x), affine("hh", state.hidden)
    )  # [4 n_hidden]: input, forget, cell, output
    n_hidden = state.hidden.ne[0]

    def gate(index: int) -> ggml.Tensor:
        return ggml.view_1d(ctx, gates, n_hidden, index * n_hidden * gates.nb[0])

    kept = ggml.mul(ctx, ggml.sigmoid(ctx, gate(1)), state.cell)
    added = ggml.mul(ctx, ggml.sigmoid(ctx, gate(0)), ggml.tanh(ctx, gate(2)))
    cell = ggml.add(ctx, kept, added)
    hidden = ggml.mul(ctx, ggml.sigmoid(ctx, gate(3)), ggml.tanh(ctx, cell))
    return LstmState(hidden, cell)
