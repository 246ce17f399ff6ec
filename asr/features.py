"""Log-mel features: NeMo's ``AudioToMelSpectrogramPreprocessor`` in evaluation mode."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import asr._core as _core
from asr.backend import weight_to_host_f32
from asr.errors import ModelFormatError
from asr.hyperparameters import Preprocessor
from asr.loader import ModelLoader


class LogMel:
    """Samples to log-mel frames, with the filterbank and window that the model file carries."""

    def __init__(self, loader: ModelLoader, config: Preprocessor) -> None:
        filterbank = weight_to_host_f32(loader, "preprocessor.featurizer.fb")
        window = weight_to_host_f32(loader, "preprocessor.featurizer.window")
        self.config = config
        # The window lies around a frame's centre, at its hop: so many samples before it and from it on.
        self._before = config.n_fft // 2 - (config.n_fft - config.win_length) // 2
        self._after = config.win_length - self._before
        try:
            self._core = _core.LogMel(
                n_fft=config.n_fft,
                win_length=config.win_length,
                hop_length=config.hop_length,
                n_mels=config.n_mels,
                preemph=config.preemph,
                log_zero_guard=config.log_zero_guard,
                per_feature=config.normalize == "per_feature",
                window=window.reshape(-1),
                filterbank=filterbank.reshape(-1),
            )
        except ValueError as error:
            raise ModelFormatError(f"{loader.path}: {error}") from None

    def __call__(self, samples: npt.NDArray[np.float32], n_threads: int = 1) -> npt.NDArray[np.float32]:
        """Mono float32 samples at the model's rate [n] -> [n // hop_length, n_mels]."""
        return self._core.compute(np.ascontiguousarray(samples, np.float32), n_threads)

    def first_sample(self, frame: int) -> int:
        """The first sample that frame number ``frame`` looks at, pre-emphasis included."""
        return max(0, frame * self.config.hop_length - self._before - 1)

    def n_complete(self, n_samples: int) -> int:
        """How many frames do not change any more, whatever follows the first ``n_samples`` samples."""
        return max(0, (n_samples - self._after) // self.config.hop_length + 1)

    def rows(
        self, samples: npt.NDArray[np.float32], begin: int, first: int, count: int, n_threads: int = 1
    ) -> npt.NDArray[np.float32]:
        """Frames ``first`` ... of a signal before normalisation, [count, n_mels], from a part of it.

        ``samples`` are those from number ``begin`` on, which is at most :meth:`first_sample` of ``first``;
        silence is what follows them. Bit for bit what the whole signal gives.
        """
        return self._core.rows(np.ascontiguousarray(samples, np.float32), begin, first, count, n_threads)

    def normalise(self, rows: npt.NDArray[np.float32], n_threads: int = 1) -> None:
        """All :meth:`rows` of a signal [T, n_mels], in place, as calling this object does."""
        self._core.normalise(rows, n_threads)
