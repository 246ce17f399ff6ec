"""What a streaming engine is: samples in, tokens out, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from asr.decoding.hypothesis import Hypothesis


@dataclass(frozen=True, slots=True)
class Step:
    """What one chunk of audio gave.

    ``committed``: tokens that will not change; those of all steps, one after the other, are the transcript.
    ``tentative``: what seems to follow, as far as audio has come; the next step replaces it.
    ``n_frames``: how many encoder frames of the stream are decoded for good so far. Frames of tokens count
    from the beginning of the stream.
    """

    committed: Hypothesis
    tentative: Hypothesis
    n_frames: int


class Engine(Protocol):
    """Recognises one stream; used by one thread at a time.

    Samples are mono float32 at the model's rate, in blocks of any size.
    """

    def accept(self, samples: npt.NDArray[np.float32]) -> Iterator[Step]:
        """A step for each chunk that these samples complete, computed as it is asked for."""

    def finish(self) -> Iterator[Step]:
        """The steps of what is left when the stream ends; nothing may follow."""
