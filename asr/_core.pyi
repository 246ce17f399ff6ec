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
    """Greedy RNN-T and TDT decoding over three graphs that are built once."""

    def __init__(
        self,
        *,
        backend: PersistentBackend,
        embed: ggml.Graph,
        predict: ggml.Graph,
        joint: ggml.Graph,
        token: ggml.Tensor,
        input_gates: ggml.Tensor,
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
    def rows(
        self, samples: npt.NDArray[np.float32], begin: int, first: int, count: int, n_threads: int = 1
    ) -> npt.NDArray[np.float32]: ...
    def normalise(self, rows: npt.NDArray[np.float32], n_threads: int = 1) -> None: ...

def ctc_greedy(logits: npt.NDArray[np.float32], blank: int) -> Tokens: ...
def kernel_sets() -> list[str]:
    """The sets of kernels that this processor can run, the best first; the last ones are plain loops."""

def reference_kernels(name: str) -> str:
    """The set that computes in plain loops what another does. Raises ``ValueError``."""

def kernels() -> str:
    """The set in use."""

def use_kernels(name: str) -> None:
    """Computes with another set from now on, for tests. Raises ``ValueError``."""

def linear(
    ctx: ggml.Context,
    x: ggml.Tensor,
    weights: Sequence[ggml.Tensor],
    *,
    biases: Sequence[ggml.Tensor] = (),
    norm: Sequence[ggml.Tensor] = (),
    activation: str = "none",
    residual: ggml.Tensor | None = None,
    half: bool = False,
) -> ggml.Tensor:
    """residual + (0.5 if half) * activation(norm(x) W^T + b): x [n_in, T] -> [n_out, T], the results of up to
    three W of one size side by side. ``norm``: weight and bias of a layer norm. ``gated`` halves n_out.
    """

def layer_norm(ctx: ggml.Context, x: ggml.Tensor, weight: ggml.Tensor, bias: ggml.Tensor) -> ggml.Tensor: ...
def relative_attention(
    ctx: ggml.Context,
    queries: ggml.Tensor,
    keys: ggml.Tensor,
    values: ggml.Tensor,
    positions: ggml.Tensor,
    bias_u: ggml.Tensor,
    bias_v: ggml.Tensor,
    *,
    first: int = 0,
    zero: int | None = None,
    left: int = -1,
    right: int = -1,
    chunked: bool = False,
) -> ggml.Tensor:
    """queries [d, n], keys and values [d, T], biases [d_head, H] -> [d, n]; -1 is no limit.

    The queries are frames ``first`` and on, the keys frames 0 and on. Row r of ``positions`` [d, ...] is the
    distance ``zero`` - r of a query from a key before it; by default ``zero`` is T-1, the row of distance 0
    in a table of all 2T-1.
    """

def first_convolution(
    ctx: ggml.Context,
    mel: ggml.Tensor,
    kernel: ggml.Tensor,
    bias: ggml.Tensor | None,
    *,
    causal: bool = False,
) -> ggml.Tensor:
    """relu(3x3 convolution of stride 2): mel [F, T], kernel [C, 3, 3] -> [C, F/2, T/2]."""

def strided_depthwise(
    ctx: ggml.Context, x: ggml.Tensor, kernel: ggml.Tensor, bias: ggml.Tensor | None, *, causal: bool = False
) -> ggml.Tensor:
    """3x3 convolution of stride 2, channel by channel: [C, F, T], kernel [C, 3, 3] -> [C, F/2, T/2]."""

def depthwise(
    ctx: ggml.Context,
    x: ggml.Tensor,
    kernel: ggml.Tensor,
    bias: ggml.Tensor,
    *,
    left: int,
    right: int,
    silu: bool = False,
) -> ggml.Tensor:
    """Convolution over time, channel by channel: x [d, T], kernel [d, left + 1 + right] -> [d, T]."""
