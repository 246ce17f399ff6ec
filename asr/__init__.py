"""Speech recognition for NVIDIA's Parakeet models on ggml: exact to NeMo, offline.

::

    import asr

    print(asr.transcribe("clip.wav").text)

    model = asr.load_model("parakeet.gguf")
    transcript = model.transcribe("clip.wav")
    for word in transcript.words:
        print(word.start, word.end, word.text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ggml._locate import built_package

__path__ = built_package(__name__, __path__)

from asr.errors import (
    AsrError,
    AudioError,
    Cancelled,
    DecoderError,
    DeviceError,
    ForkedProcessError,
    MemoryLimitError,
    ModelFormatError,
    ModelNotFoundError,
    OutputError,
)

if TYPE_CHECKING:
    from asr.model import Model, load_model, transcribe
    from asr.transcript import Segment, Token, Transcript, Word

__version__ = "0.1.0"

__all__ = [
    "AsrError",
    "AudioError",
    "Cancelled",
    "DecoderError",
    "DeviceError",
    "ForkedProcessError",
    "MemoryLimitError",
    "Model",
    "ModelFormatError",
    "ModelNotFoundError",
    "OutputError",
    "Segment",
    "Token",
    "Transcript",
    "Word",
    "load_model",
    "transcribe",
]

# Loaded when first used, so that the command line starts quickly.
_LAZY = {
    "Model": "asr.model",
    "load_model": "asr.model",
    "transcribe": "asr.model",
    "Segment": "asr.transcript",
    "Token": "asr.transcript",
    "Transcript": "asr.transcript",
    "Word": "asr.transcript",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'asr' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
