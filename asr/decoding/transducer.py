"""The transducer heads, RNN-T and TDT: NeMo's ``RNNTDecoder`` and ``RNNTJoint``, decoded greedily.

Three small graphs are built once, in memory of their own, and run again for every step by a loop in C++
(``native/asr/transducer.cpp``): the embedding of each token that is new to the loop, the prediction network
after each token, the joint for each frame tried.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import asr._core as _core
import ggml
from asr.backend import Backend, CancelSignal, clone_weight, graph_input_tensor
from asr.decoding.hypothesis import Hypothesis
from asr.errors import ModelFormatError
from asr.hyperparameters import Transducer
from asr.loader import ModelLoader
from asr.nn.linear import linear
from asr.nn.lstm import LstmState, lstm_cell, lstm_input

_LSTM = "decoder.prediction.dec_rnn.lstm"
_MAX_NODES = 256
_MAX_TENSORS = 512


class TransducerHead:
    """Greedy decoding with a persistent backend of its own; one utterance at a time, others wait."""

    def __init__(self, backend: Backend, loader: ModelLoader, config: Transducer, vocab_size: int) -> None:
        self._backend = backend
        self._loader = loader
        self._joint_hidden = config.joint_hidden
        self._decoder, self._prediction = _build_decoder(backend, loader, config, vocab_size)

    def decode(self, encoded: npt.NDArray[np.float32], cancel: CancelSignal | None = None) -> Hypothesis:
        """Encoder output [T, d_model] -> tokens."""

        def project(ctx: ggml.Context) -> ggml.Tensor:
            x = graph_input_tensor(ctx, ggml.Type.F32, encoded.shape[::-1], encoded)
            return linear(ctx, self._loader, "joint.enc", x)

        # The encoder's half of the joint does not depend on the tokens: all frames at once.
        frames = self._backend.compute(project, cancel=cancel).reshape(-1, self._joint_hidden)
        hypothesis, finite = self._decoder.decode(frames, cancel)
        # ReLU hides from the joint what is no number in front of it.
        if not finite or not all(np.isfinite(values).all() for values in (frames, self._prediction.get())):
            raise ModelFormatError(
                f"{self._loader.path} is damaged: not all of its transducer's values are finite"
            )
        return Hypothesis(*hypothesis)


def _build_decoder(
    backend: Backend, loader: ModelLoader, config: Transducer, vocab_size: int
) -> tuple[_core.TransducerDecoder, ggml.Tensor]:
    """The decoder, and the tensor through which the prediction network's output reaches the joint."""
    ctx = ggml.Context(_MAX_TENSORS * ggml.tensor_overhead() + 3 * ggml.graph_overhead(_MAX_NODES))
    token = _input(ctx, ggml.Type.I32, 1)
    encoder_frame = _input(ctx, ggml.Type.F32, config.joint_hidden)
    state = [
        LstmState(
            _input(ctx, ggml.Type.F32, config.pred_hidden), _input(ctx, ggml.Type.F32, config.pred_hidden)
        )
        for _ in range(config.pred_rnn_layers)
    ]
    prediction = _input(ctx, ggml.Type.F32, config.joint_hidden)  # from one graph to the other

    input_gates = _input(ctx, ggml.Type.F32, 4 * config.pred_hidden)  # likewise

    embed = ggml.Graph(ctx, _MAX_NODES)
    x = ggml.get_rows(ctx, clone_weight(ctx, loader, "decoder.prediction.embed.weight"), token)
    x = lstm_input(ctx, loader, _LSTM, 0, ggml.reshape_1d(ctx, x, config.pred_hidden))
    embed.expand(ggml.cpy(ctx, x, input_gates))

    predict = ggml.Graph(ctx, _MAX_NODES)
    x = input_gates
    for layer, before in enumerate(state):
        gates = lstm_input(ctx, loader, _LSTM, layer, x) if layer > 0 else x
        after = lstm_cell(ctx, loader, _LSTM, layer, gates, before)
        # The state is updated in place: these copies come after every use of the old one in the graph.
        for new, old in zip(after, before, strict=True):
            predict.expand(ggml.cpy(ctx, new, old))
        x = after.hidden
    predict.expand(ggml.cpy(ctx, linear(ctx, loader, "joint.pred", x), prediction))

    joint = ggml.Graph(ctx, _MAX_NODES)
    activated = ggml.relu(ctx, ggml.add(ctx, encoder_frame, prediction))
    logits = linear(ctx, loader, "joint.joint_net.2", activated)
    logits.set_output()
    joint.expand(logits)

    ggml.alloc_ctx_tensors(ctx, backend.handle)
    decoder = _core.TransducerDecoder(
        backend=backend.core,
        embed=embed,
        predict=predict,
        joint=joint,
        token=token,
        input_gates=input_gates,
        encoder_frame=encoder_frame,
        logits=logits,
        state=[tensor for layer_state in state for tensor in layer_state],
        blank=vocab_size,
        durations=list(config.durations),
        max_symbols=config.max_symbols,
    )
    return decoder, prediction


def _input(ctx: ggml.Context, type: ggml.Type, size: int) -> ggml.Tensor:
    tensor = ctx.new_tensor(type, [size])
    tensor.set_input()
    return tensor
