"""The extension module: persistent backend, log-mel and decoding loops in C++."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import ggml

# ids, frames, durations (int32) and confidence (float32), one row a token
Tokens = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32]]

class PersistentBackend:
    """One backend, one graph allocator and one arena for graphs; see :class:`asr.backend.Backend`."""

    def __init__(self, backend: ggml.Backend, max_nodes: int) -> None: ...
    @property
    def handle(self) -> ggml.Backend: ...
    @property
    def graphs_run(self) -> int: ...
    @property
    def compute_buffer_size(self) -> int: ...
    @property
    def compute_buffer_address(self) -> int: ...
    def begin(self) -> ggml.Context: ...
    def allocate(self, outputs: Sequence[ggml.Tensor]) -> None: ...
    def run(self, cancel: object = None) -> None: ...
    def cancel(self) -> None: ...

class TransducerDecoder:
    """Greedy RNN-T and TDT decoding over two graphs that are built once."""

    def __init__(
        self,
        *,
        backend: PersistentBackend,
        predict: ggml.Graph,
        joint: ggml.Graph,
        token: ggml.Tensor,
        encoder_frame: ggml.Tensor,
        logits: ggml.Tensor,
        state: Sequence[ggml.Tensor],
        blank: int,
        durations: Sequence[int],
        max_symbols: int,
    ) -> None: ...
    def decode(self, frames: npt.NDArray[np.float32], cancel: object = None) -> tuple[Tokens, bool]:
        """The tokens, and whether the joint's outputs were finite."""

class LogMel:
    """NeMo's log-mel front end in evaluation mode."""

    def __init__(
        self,
        *,
        n_fft: int,
        win_length: int,
        hop_length: int,
        n_mels: int,
        preemph: float,
        log_zero_guard: float,
        per_feature: bool,
        window: npt.NDArray[np.float32],
        filterbank: npt.NDArray[np.float32],
    ) -> None: ...
    def compute(self, samples: npt.NDArray[np.float32], n_threads: int = 1) -> npt.NDArray[np.float32]: ...

def ctc_greedy(logits: npt.NDArray[np.float32], blank: int) -> Tokens: ...
