"""What a decoding head gives: token ids with frames, durations and confidences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Greedy decoding result; four arrays of one length, a row a token.

    ``ids``: int32 token ids, blank never among them. ``frames``: int32 index of the encoder frame at which
    the token was emitted (CTC: the first frame of its run). ``durations``: int32 frames; TDT: the predicted
    duration; RNN-T: 1; CTC: the length of the token's run of repetitions. ``confidence``: float32 in
    [0, 1], NeMo's default measure (Tsallis entropy, alpha 0.33, exponential normalisation).
    """

    ids: npt.NDArray[np.int32]
    frames: npt.NDArray[np.int32]
    durations: npt.NDArray[np.int32]
    confidence: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ids)
