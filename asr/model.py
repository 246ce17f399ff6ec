"""A loaded model: from audio to a transcript, and to what researchers look at on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict, overload

import numpy as np
import numpy.typing as npt

import asr._core as _core
from asr.architectures.fastconformer import EncoderStates, FastConformer
from asr.audio import AudioSource, display_name, is_silent, load_audio, printable
from asr.backend import Backend, CancelSignal
from asr.decoding.ctc import CtcHead
from asr.decoding.result import build_transcript_parts
from asr.decoding.transducer import TransducerHead
from asr.errors import AsrError, Cancelled, DecoderError, MemoryLimitError, ModelFormatError
from asr.features import LogMel
from asr.loader import ModelLoader
from asr.model_config import read_hyperparameters, read_tokenizer
from asr.models import find_model
from asr.threads import usable_n_threads
from asr.transcript import Transcript

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from asr.decoding.timestamps import Head

FloatArray = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]
AudioSources: TypeAlias = "list[AudioSource] | tuple[AudioSource, ...]"
ModelChoice: TypeAlias = "str | os.PathLike[str] | Model | None"


# Seconds; padding is for clips of a word or two.
_LONGEST_PADDING = 3600


class TranscribeOptions(TypedDict, total=False):
    """The keyword options of :meth:`Model.transcribe`."""

    sample_rate: int | None
    decoder: str | None
    min_duration: float
    channel: int | None
    progress: Progress | None
    cancel: CancelSignal | None


class LoadAndTranscribeOptions(TranscribeOptions, total=False):
    """The keyword options of :func:`transcribe`."""

    device: str
    n_threads: int | None


def load_model(
    name_or_path: str | os.PathLike[str] | None = None,
    *,
    device: str = "cpu",
    n_threads: int | None = None,
    att_context_size: tuple[int, int] | None = None,
) -> Model:
    """Loads a model by the name of a bundled one or the path of a ``.gguf`` or ``.nemo`` file.

    ``device`` computes the encoder: ``"cpu"`` or a name of :func:`ggml.devices`. ``n_threads`` defaults to
    the physical cores, at most 8; more threads than the process has CPUs are never started, fewer than 1
    means 1; results do not depend on it. ``att_context_size`` chooses among the attention contexts (left,
    right) that a streaming model was trained with; None is its default.

    Raises :class:`asr.ModelNotFoundError`, :class:`asr.ModelFormatError`, and :class:`asr.DeviceError` for an
    unknown device.
    """
    return Model(
        find_model(name_or_path), device=device, n_threads=n_threads, att_context_size=att_context_size
    )


class Model:
    """Use :func:`load_model`. May be used from several threads at once: computations take turns.

    ``decoders`` are the heads it has, the default first: ``"tdt"``, ``"rnnt"``, ``"ctc"``.
    """

    def __init__(
        self,
        path: Path,
        *,
        device: str = "cpu",
        n_threads: int | None = None,
        att_context_size: tuple[int, int] | None = None,
    ) -> None:
        self._loader = ModelLoader(path, device)
        loader = self._loader
        self.config = read_hyperparameters(loader.metadata, loader.shapes, path)
        self.tokenizer = read_tokenizer(loader.metadata, self.config.vocab_size, path)
        name = loader.metadata.get("general.name")
        self.name = printable(name) if isinstance(name, str) and name else path.stem
        self.path = path
        self.backend = Backend(usable_n_threads(n_threads), device)
        # Steps of a decoder are too small to share between threads: one thread, no barriers.
        self.decoder_backend = Backend(1)
        loader.realize_weights()
        self._log_mel = LogMel(loader, self.config.preprocessor)
        self._encoder = FastConformer(loader, self.config.encoder, self._context(att_context_size))
        self._heads: dict[str, CtcHead | TransducerHead] = {}
        if self.config.transducer is not None:
            kind = "tdt" if self.config.transducer.durations else "rnnt"
            self._heads[kind] = TransducerHead(
                self.decoder_backend, loader, self.config.transducer, self.config.vocab_size
            )
        self._ctc: CtcHead | None = None
        if self.config.ctc_head is not None:
            self._ctc = CtcHead(self.decoder_backend, loader, self.config.ctc_head, self.config.vocab_size)
            self._heads["ctc"] = self._ctc
        self.decoders: tuple[str, ...] = tuple(self._heads)

    def __repr__(self) -> str:
        return f"<asr.Model {self.name}: {', '.join(self.decoders)}>"

    @property
    def sample_rate(self) -> int:
        """The rate in Hz to which audio is resampled."""
        return self.config.preprocessor.sample_rate

    @property
    def kernels(self) -> str | None:
        """The set of our own kernels that computes the encoder, such as ``avx2``; None: ggml's operators."""
        return _core.kernels() if self._loader.fused else None

    @property
    def frame_seconds(self) -> float:
        """The length of an encoder frame in seconds."""
        front = self.config.preprocessor
        return front.hop_length / front.sample_rate * self.config.encoder.subsampling_factor

    @overload
    def transcribe(self, audio: AudioSource, **options: Unpack[TranscribeOptions]) -> Transcript: ...
    @overload
    def transcribe(self, audio: AudioSources, **options: Unpack[TranscribeOptions]) -> list[Transcript]: ...
    def transcribe(
        self,
        audio: AudioSource | AudioSources,
        *,
        sample_rate: int | None = None,
        decoder: str | None = None,
        min_duration: float = 1.0,
        channel: int | None = None,
        progress: Progress | None = None,
        cancel: CancelSignal | None = None,
    ) -> Transcript | list[Transcript]:
        """The transcript of a recording, or of each of a list of recordings.

        ``audio``: a path, an open binary file, its bytes, or an array of samples; see
        :func:`asr.audio.load_audio`. ``sample_rate``: of an array in Hz, by default the model's.
        ``decoder``: one of :attr:`decoders`, by default the first. ``min_duration``: shorter clips are padded
        with zeros on both sides to so many seconds, as NeMo's ``transcribe()`` does; 0 takes a clip as it is.
        ``channel``: 1 is the first; None mixes all down. ``progress(done, total)`` is called after each
        recording. ``cancel``: anything with ``is_set()``, such as a ``threading.Event``; asked every 20 ms.

        All-zero audio gives an empty transcript. Raises :class:`asr.AudioError`, :class:`asr.DecoderError`
        when the model has no such head, and :class:`asr.Cancelled`; in a list, the error of the first
        recording that fails.
        """
        head = self._head(decoder)
        if not 0 <= min_duration <= _LONGEST_PADDING:
            raise AsrError(f"min_duration must be 0 to {_LONGEST_PADDING} seconds, not {min_duration}")
        several = isinstance(audio, list | tuple)
        sources: AudioSources = audio if isinstance(audio, list | tuple) else [audio]
        results = []
        for done, source in enumerate(sources, 1):
            if cancel is not None and cancel.is_set():
                raise Cancelled("the transcription was cancelled")
            with _enough_memory("to read the recording"):
                samples = load_audio(source, sample_rate, self.sample_rate, channel)
            results.append(self._transcribe(samples, head, min_duration, cancel))
            if progress is not None:
                progress(done, len(sources))
        return results if several else results[0]

    def transcribe_in_stages(
        self, audio: AudioSource, lap: Callable[[str], None], *, decoder: str | None = None
    ) -> Transcript:
        """:meth:`transcribe` with default options; calls ``lap`` with a stage's name at the end of each.

        The stages are ``read``, ``mel``, ``encoder`` and ``decoder``; silence has the first only.
        """
        head = self._head(decoder)
        with _enough_memory("to read the recording"):
            samples = load_audio(audio, None, self.sample_rate, None)
        lap("read")
        return self._transcribe(samples, head, 1.0, None, lap)

    def log_mel(
        self, audio: AudioSource, *, sample_rate: int | None = None, channel: int | None = None
    ) -> FloatArray:
        """Log-mel features [T, n_mels] of a clip as it is, without padding; T is samples // hop_length."""
        return self._features(load_audio(audio, sample_rate, self.sample_rate, channel))

    def encode(
        self, audio: AudioSource, *, sample_rate: int | None = None, channel: int | None = None
    ) -> FloatArray:
        """Encoder output [T/8, d_model] of a clip as it is, without padding."""
        mel = self.log_mel(audio, sample_rate=sample_rate, channel=channel)
        return self._encoder.encode(self.backend, mel)

    def encoder_states(
        self, audio: AudioSource, *, sample_rate: int | None = None, channel: int | None = None
    ) -> EncoderStates:
        """Like :meth:`encode`, with what comes before the output.

        ``subsampling`` [T/8, d_model], ``layers``, a tuple of as many [T/8, d_model] as there are blocks, and
        ``output``, which is the last of them.
        """
        mel = self.log_mel(audio, sample_rate=sample_rate, channel=channel)
        return self._encoder.encode_states(self.backend, mel)

    def log_probs(
        self, audio: AudioSource, *, sample_rate: int | None = None, channel: int | None = None
    ) -> FloatArray:
        """CTC log-probabilities [T/8, vocabulary + 1], blank last. Raises :class:`asr.DecoderError`."""
        if self._ctc is None:
            raise DecoderError(f"{self.name} has no CTC head; it has: {', '.join(self.decoders)}")
        return self._ctc.log_probs(self.encode(audio, sample_rate=sample_rate, channel=channel))

    def info(self) -> dict[str, object]:
        """Facts about the model, for people."""
        encoder, front = self.config.encoder, self.config.preprocessor
        metadata = self._loader.metadata
        facts: dict[str, object] = {
            "name": self.name,
            "description": _text(metadata.get("general.description")),
            "license": _text(metadata.get("general.license")),
            "path": display_name(self.path),
            "size": f"{self.path.stat().st_size / 1e6:.1f} MB",
            "decoders": list(self.decoders),
            "vocabulary": self.config.vocab_size,
            "sample rate": front.sample_rate,
            "mel bins": front.n_mels,
            "encoder layers": encoder.n_layers,
            "width": encoder.d_model,
            "heads": encoder.n_heads,
            "attention context": [f"{left}/{right}" for left, right in encoder.att_contexts],
            "frame": f"{self.frame_seconds * 1000:.0f} ms",
            "tensor types": self._loader.type_counts,
        }
        return {key: value for key, value in facts.items() if value is not None}

    def _transcribe(
        self,
        samples: FloatArray,
        head: Head,
        min_duration: float,
        cancel: CancelSignal | None,
        lap: Callable[[str], None] = lambda stage: None,
    ) -> Transcript:
        duration = len(samples) / self.sample_rate
        with _enough_memory(f"to transcribe {duration:.0f} s of audio at once"):
            if is_silent(samples):
                return Transcript("", (), (), (), duration, self.name, head)
            missing = max(0, int(min_duration * self.sample_rate) - len(samples))
            before = missing // 2
            if missing:
                samples = np.pad(samples, (before, missing - before))
            features = self._features(samples)
            lap("mel")
            encoded = self._encoder.encode(self.backend, features, cancel)
            lap("encoder")
            self._check_finite(encoded)
            hypothesis = self._heads[head].decode(encoded, cancel)
            text, tokens, words, segments = build_transcript_parts(
                hypothesis,
                self.tokenizer,
                head,
                self.frame_seconds,
                offset_seconds=before / self.sample_rate,
                duration=duration,
            )
            lap("decoder")
        return Transcript(text, tokens, words, segments, duration, self.name, head)

    def _features(self, samples: FloatArray) -> FloatArray:
        mel = self._log_mel(samples, self.backend.n_threads)
        self._check_finite(mel)
        return mel

    def _check_finite(self, values: FloatArray) -> None:
        """Audio is finite: when something computed from it is not, the weights are damaged."""
        if not np.isfinite(values).all():
            raise ModelFormatError(
                f"{display_name(self.path)} is damaged: not all computed values are finite"
            )

    def _head(self, decoder: str | None) -> Head:
        name = decoder or self.decoders[0]
        for head in ("tdt", "rnnt", "ctc"):
            if name == head and head in self._heads:
                return head
        raise DecoderError(f"{self.name} has no {name!r} decoder; it has: {', '.join(self.decoders)}")

    def _context(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        known = self.config.encoder.att_contexts
        if size is not None and tuple(size) not in known:
            listed = ", ".join(str(list(context)) for context in known)
            raise AsrError(
                f"{self.name} was not trained with the attention context {list(size)}; choose from {listed}"
            )
        return None if size is None else (size[0], size[1])


@overload
def transcribe(
    audio: AudioSource, model: ModelChoice = None, **options: Unpack[LoadAndTranscribeOptions]
) -> Transcript: ...
@overload
def transcribe(
    audio: AudioSources, model: ModelChoice = None, **options: Unpack[LoadAndTranscribeOptions]
) -> list[Transcript]: ...
def transcribe(
    audio: AudioSource | AudioSources,
    model: ModelChoice = None,
    *,
    device: str = "cpu",
    n_threads: int | None = None,
    **options: Unpack[TranscribeOptions],
) -> Transcript | list[Transcript]:
    """Transcribes a recording, or a list of them, with a model given by name, path or as a :class:`Model`.

    ``device`` and ``n_threads`` are those of :func:`load_model`; all other options are those of
    :meth:`Model.transcribe`. The model loaded last is kept for the next call. Raises what both raise.
    """
    if not isinstance(model, Model):
        path = find_model(model)
        model = _last_loaded(path, path.stat().st_mtime_ns, device, n_threads, os.getpid())
    if isinstance(audio, list | tuple):
        return model.transcribe(audio, **options)
    return model.transcribe(audio, **options)


@contextmanager
def _enough_memory(what: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise MemoryLimitError(f"not enough memory {what}; cut it into parts") from None


def _text(value: object) -> str | None:
    return printable(value) if isinstance(value, str) else None


@lru_cache(maxsize=1)
def _last_loaded(path: Path, mtime_ns: int, device: str, n_threads: int | None, pid: int) -> Model:
    """Keyed by the file's state and the process too: a forked child cannot use its parent's model."""
    return Model(path, device=device, n_threads=n_threads)
