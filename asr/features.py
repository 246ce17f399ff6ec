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
