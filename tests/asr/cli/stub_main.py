"""The command line with a stand-in for the model: real audio input and output, made-up words.

Run as a script it is the ``asr`` command for tests of what only a process shows: signals, pipes, encodings.
``STUB_SECONDS`` makes each transcription take that long, ``STUB_SEGMENTS`` sets the length of its result.
"""

from __future__ import annotations

import os
import sys
import time
import types
from typing import Any

import asr
from asr.audio import load_audio
from asr.errors import DecoderError, ModelNotFoundError
from asr.transcript import Segment, Token, Transcript, Word

NOTICE = "no model was named: using stub, which is for tests; choose another with --model"


class StubModel:
    """What the command line uses of a model; remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, dict[str, Any]]] = []
        self.loaded: list[tuple[object, dict[str, Any]]] = []

    def transcribe(self, source: Any, **options: Any) -> Transcript:
        self.calls.append((source, options))
        if options.get("decoder") == "rnnt":
            raise DecoderError("the model stub has no rnnt head; it has tdt, ctc")
        samples = load_audio(source, channel=options.get("channel"))
        time.sleep(float(os.environ.get("STUB_SECONDS", "0")))
        count = int(os.environ.get("STUB_SEGMENTS", "1"))
        text = f"heard {len(samples)} é."
        return Transcript(
            text=" ".join([text] * count),
            tokens=(Token(1, "▁heard", 0.0, 0.08, 0, 1, 0.5),),
            words=(Word("heard", 0.0, 0.08, 0.5),),
            segments=tuple(Segment(text, float(i), i + 1.0, 0.5) for i in range(count)),
            duration=len(samples) / 16000,
            model="stub",
            decoder="tdt",
        )

    def info(self) -> dict[str, object]:
        return {"name": "stub", "heads": ["tdt", "ctc"], "layers": 2, "licence": None, "streaming": False}


def install(setter: Any = setattr) -> StubModel:
    """Put the stub in the place of the library's models, with ``setter(object, name, value)``."""
    model = StubModel()

    def load_model(name: str | None = None, device: str = "cpu", n_threads: int | None = None) -> StubModel:
        model.loaded.append((name, {"device": device, "n_threads": n_threads}))
        if name == "missing":
            raise ModelNotFoundError("there is no model 'missing'; name a .gguf or .nemo file")
        return model

    models = types.ModuleType("asr.models")
    models.default_notice = lambda: NOTICE  # type: ignore[attr-defined]
    setter(asr, "load_model", load_model)
    setter(asr, "models", models)
    return model


if __name__ == "__main__":
    from asr.cli import main

    install()
    sys.modules["asr.models"] = asr.models
    sys.exit(main())
