"""The CTC head: NeMo's ``ConvASRDecoder``, decoded greedily."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import asr._core as _core
import ggml
from asr.backend import Backend, CancelSignal, graph_input_tensor
from asr.decoding.hypothesis import Hypothesis
from asr.errors import ModelFormatError
from asr.loader import ModelLoader
from asr.nn.linear import linear

FloatArray = npt.NDArray[np.float32]


class CtcHead:
    """``name`` is the head's tensor prefix; ``vocab_size`` is also the blank's class."""

    def __init__(self, backend: Backend, loader: ModelLoader, name: str, vocab_size: int) -> None:
        self._backend = backend
        self._loader = loader
        self._name = name
        self._vocab_size = vocab_size

    def logits(self, encoded: FloatArray, cancel: CancelSignal | None = None) -> FloatArray:
        """Encoder output [T, d_model] -> [T, V+1], before the softmax."""

        def build(ctx: ggml.Context) -> ggml.Tensor:
            x = graph_input_tensor(ctx, ggml.Type.F32, encoded.shape[::-1], encoded)
            return linear(ctx, self._loader, self._name, x)

        return self._backend.compute(build, cancel=cancel).reshape(-1, self._vocab_size + 1)

    def log_probs(self, encoded: FloatArray) -> FloatArray:
        """Encoder output [T, d_model] -> log-softmax over the classes [T, V+1]."""
        logits = self.logits(encoded)
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)
        return logits

    def decode(self, encoded: FloatArray, cancel: CancelSignal | None = None) -> Hypothesis:
        """Greedy: the best class of each frame, repetitions merged, blanks dropped."""
        logits = self.logits(encoded, cancel)
        if not np.isfinite(logits).all():
            raise ModelFormatError(f"{self._loader.path} is damaged: not all of its CTC outputs are finite")
        return Hypothesis(*_core.ctc_greedy(logits, self._vocab_size))
