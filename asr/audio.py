"""From any recording to mono float32 samples at the model's rate.

Files go through libsndfile (soundfile), rates through soxr at its HQ setting. Everything that would
otherwise become a silent wrong answer is an :class:`~asr.errors.AudioError`: a file that is cut off, values
that are not finite, a clip too short for a single frame.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from asr import containers
from asr.errors import AudioError

if TYPE_CHECKING:
    import soundfile

AudioSource: TypeAlias = "str | os.PathLike[str] | BinaryIO | bytes | npt.NDArray[Any]"
Samples: TypeAlias = "npt.NDArray[np.float32]"

TARGET_RATE = 16000
MAX_CHANNELS = 64
_MIN_SECONDS = 0.01  # 160 samples at 16 kHz: one hop of the log-mel front end
_RATES = (1000, 10_000_000)
_MAX_AMPLITUDE = 1e12  # beyond this the power spectrum leaves the range of float32
_BLOCK_VALUES = 1 << 20  # samples times channels read at a time
_CONVERT = "convert it first, for example: ffmpeg -i INPUT -ac 1 -ar 16000 OUTPUT.wav"
_KINDS = "WAV, FLAC, MP3, OGG (Vorbis, Opus), AIFF, AU, CAF, W64 and NIST SPHERE are read"
# What libsndfile reads besides cannot be told whole from cut off, or has no header at all.
_FORMATS = {"WAV", "WAVEX", "RF64", "W64", "FLAC", "MP3", "OGG", "AIFF", "AU", "CAF", "NIST"}


def load_audio(
    source: AudioSource,
    sample_rate: int | None = None,
    target_rate: int = TARGET_RATE,
    channel: int | None = None,
) -> Samples:
    """Mono float32 samples [n] at ``target_rate`` from a file, an open binary file, bytes or an array.

    ``source``: a path; an open binary file or the bytes of one (read to the end); or an array. Arrays are
    [samples] or [samples, channels], as soundfile returns them: float of any width in -1 to 1, or int16,
    int32, int8 or uint8, which are divided by their full scale (uint8 is centred on 128, as in WAV). A
    float32 array that needs no change is not copied.

    ``sample_rate``: of an array, in Hz; by default ``target_rate``. A file states its own rate and this
    argument is not looked at.

    ``channel``: None mixes down to the mean of all channels; 1 is the first channel, 2 the second.

    :raises AudioError: no such file, a folder, no permission, empty, not audio, cut off, damaged, more than
        64 channels, no such channel, shorter than 10 ms (160 samples at 16 kHz), NaN or infinity, or an
        array of the wrong shape or type.
    """
    if target_rate <= 0:
        raise ValueError(f"target_rate must be positive, not {target_rate}")
    if isinstance(source, np.ndarray) or _is_array_like(source):
        name = "the array"
        rate = target_rate if sample_rate is None else sample_rate
        mono = _from_array(np.asarray(source), channel, name)
    else:
        name = display_name(source)
        with _opened(source, name) as file:
            try:
                mono, rate = _decode(file, channel, name)
            except OSError as error:  # a failing disk, a lost network drive
                raise AudioError(f"{name} cannot be read: {error.strerror or error}") from error
    _check_rate(rate, name)
    _check_values(mono, rate, name)
    if rate != target_rate:
        import soxr

        mono = soxr.resample(mono, rate, target_rate, quality="HQ")
    shortest = round(_MIN_SECONDS * target_rate)
    if len(mono) < shortest:
        raise AudioError(
            f"{name} is too short: {len(mono)} samples at {target_rate} Hz; at least {shortest} "
            f"({_MIN_SECONDS * 1000:.0f} ms) are needed"
        )
    return np.ascontiguousarray(mono, dtype=np.float32)


def is_silent(audio: npt.NDArray[Any]) -> bool:
    """True when every sample is exactly zero (digital silence): its transcript is empty by rule."""
    return not np.any(audio)


def display_name(source: object) -> str:
    """What to call a source in a message: its path, else what it is; always printable as UTF-8."""
    if isinstance(source, bytes):
        return "the bytes given"
    if not isinstance(source, str | os.PathLike):
        named = getattr(source, "name", None)
        source = named if isinstance(named, str) and named != "<stdin>" else None
        if source is None:
            return "standard input" if named in ("<stdin>", 0) else "the file object"
    return printable(os.fsencode(source).decode("utf-8", "surrogateescape"))


def printable(text: str) -> str:
    """``text`` with what is no character to be shown (controls, lone surrogates) written as an escape."""
    return text if text.isprintable() else "".join(map(_escape_unprintable, text))


def _escape_unprintable(char: str) -> str:
    if char.isprintable():
        return char
    if "\udc80" <= char <= "\udcff":  # a byte of a name that is not UTF-8
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape", "surrogatepass").decode()


def _is_array_like(source: object) -> bool:
    return hasattr(source, "__array__") and hasattr(source, "shape")


def _from_array(array: npt.NDArray[Any], channel: int | None, name: str) -> Samples:
    if array.ndim not in (1, 2):
        raise AudioError(
            f"{name} has shape {array.shape}; give [samples] or [samples, channels], one recording at a time"
        )
    if array.size == 0:
        raise AudioError(f"{name} has no samples (shape {array.shape}); check what was recorded")
    if array.ndim == 2 and array.shape[1] > MAX_CHANNELS:
        raise AudioError(
            f"{name} has shape {array.shape}, which is [samples, channels]: {array.shape[1]} channels, and "
            f"at most {MAX_CHANNELS} are accepted; if it is [channels, samples], pass its transpose (array.T)"
        )
    kind = array.dtype
    if kind.kind == "f":
        # A float64 value beyond float32 becomes infinity here and is reported as such below.
        with np.errstate(over="ignore"):
            return _mono(array.astype(np.float32, copy=False), channel, name)
    if kind == np.uint8:
        return _mono((array.astype(np.float32) - 128.0) / 128.0, channel, name)
    if kind.kind == "i" and kind.itemsize <= 4:
        scale = np.float32(2.0 ** (8 * kind.itemsize - 1))
        return _mono(array.astype(np.float32) / scale, channel, name)
    raise AudioError(
        f"{name} has type {kind}, whose full scale is not known; convert it to float32 in -1 to 1, or to "
        "int16, int32, int8 or uint8"
    )


def _mono(block: npt.NDArray[np.float32], channel: int | None, name: str) -> Samples:
    """[n] from [n] or [n, channels]: the channel asked for, or the mean of all."""
    channels = 1 if block.ndim == 1 else block.shape[1]
    if channel is not None and not 1 <= channel <= channels:
        has = "1 channel" if channels == 1 else f"{channels} channels"
        raise AudioError(f"{name} has {has}, numbered from 1; there is no channel {channel}")
    if block.ndim == 1:
        return block
    if channels == 1 or channel is not None:
        return block[:, (channel or 1) - 1]
    mixed: Samples = block.mean(axis=1, dtype=np.float32)
    return mixed


def _check_rate(rate: int, name: str) -> None:
    if not _RATES[0] <= rate <= _RATES[1]:
        raise AudioError(
            f"{name}: a sample rate of {rate} Hz cannot be right; give the rate of the recording"
        )


def _check_values(mono: Samples, rate: int, name: str) -> None:
    finite = np.isfinite(mono)
    if not finite.all():
        first = int(np.argmin(finite))
        what = "NaN" if np.isnan(mono[first]) else "infinity"
        raise AudioError(
            f"{name}: {np.count_nonzero(~finite)} samples are not finite; the first is {what} at "
            f"{first / rate:.3f} s (sample {first}); repair the recording or export it again"
        )
    if len(mono):
        peak = max(float(mono.max()), -float(mono.min()))
        if peak > _MAX_AMPLITUDE:
            raise AudioError(f"{name}: samples reach {peak:.3g}; scale the audio to lie in -1 to 1")


@contextlib.contextmanager
def _opened(source: str | os.PathLike[str] | BinaryIO | bytes, name: str) -> Iterator[BinaryIO]:
    """A seekable binary file of the source; what cannot seek is read whole first."""
    if isinstance(source, bytes):
        with _spooled(source) as file:
            yield file
        return
    if not isinstance(source, str | os.PathLike):
        if not hasattr(source, "read"):
            raise AudioError(
                f"cannot read audio from {type(source).__name__}; "
                "give a path, an open binary file, bytes, or an array of samples"
            )
        try:
            content = source.read()
        except OSError as error:
            raise AudioError(f"{name} cannot be read: {error.strerror or error}") from error
        except ValueError as error:  # a closed file
            raise AudioError(f"{name} cannot be read: {error}") from error
        if not isinstance(content, bytes | bytearray):
            raise AudioError(f"{name} is open in text mode; open it in binary mode (mode 'rb')")
        if not content and _position(source) > 0:
            raise AudioError(f"{name} was read to its end before; go back to its beginning with seek(0)")
        with _spooled(bytes(content)) as file:
            yield file
        return
    opened = _open_path(source, name)
    with _spooled(opened) if isinstance(opened, bytes) else opened as file:
        yield file


def _position(file: BinaryIO) -> int:
    try:
        return file.tell()
    except (OSError, AttributeError):
        return 0


def _open_path(source: str | os.PathLike[str], name: str) -> BinaryIO | bytes:
    """The open file; the content of what is no regular file (a pipe)."""
    try:
        mode = os.stat(source).st_mode
        if stat.S_ISREG(mode):
            return open(source, "rb")
        if stat.S_ISDIR(mode):
            raise AudioError(f"{name} is a folder; name the audio files in it")
        if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not os.path.samefile(source, os.devnull)):
            raise AudioError(f"{name} is a device, not a file; name an audio file")
        with open(source, "rb") as pipe:
            return pipe.read()
    except FileNotFoundError as error:
        raise AudioError(f"{name}: no such file; check the path") from error
    except PermissionError as error:
        raise AudioError(f"{name}: no permission to read it; change its permissions") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise AudioError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from error


@contextlib.contextmanager
def _spooled(content: bytes) -> Iterator[BinaryIO]:
    """An open file with this content: libsndfile then reads it without calling back into Python.

    In a callback, Ctrl-C would be printed and swallowed by cffi.
    """
    file: IO[bytes]
    if hasattr(os, "memfd_create"):
        file = os.fdopen(os.memfd_create("asr-audio"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the with statement below
    with file:
        file.write(content)
        file.flush()
        yield file


def _decode(file: BinaryIO, channel: int | None, name: str) -> tuple[Samples, int]:
    """Decode to mono float32 in blocks, so that a file of many channels is never whole in memory."""
    import soundfile

    size = file.seek(0, os.SEEK_END)
    if size == 0:
        raise AudioError(f"{name} is empty; check what was recorded")
    file.seek(0)
    kind = containers.foreign_kind(file.read(4096))
    if kind == "a GGUF model":
        raise AudioError(f"{name} is a GGUF model, not audio; name models with -m (in Python: model=)")
    if kind is not None:
        raise AudioError(f"{name} is {kind}; {_KINDS}; {_CONVERT}")
    unsized = containers.unsized_wav_data(file, size)
    if unsized is not None:
        file.seek(0)
        content = bytearray(file.read())
        content[unsized : unsized + 4] = b"\xff\xff\xff\xff"
        with _spooled(bytes(content)) as repaired:
            return _decode(repaired, channel, name)
    cut = containers.truncation(file, size)
    file.seek(0)
    if cut is not None and file.read(4) != b"RIFF":  # a WAV header is looked at for its channels first
        raise _truncated(name, cut)
    try:
        with _sound_file(file) as sound:
            if sound.format not in _FORMATS:
                raise AudioError(f"{name} is {sound.format_info}; {_KINDS}; {_CONVERT}")
            if sound.channels > MAX_CHANNELS:
                raise AudioError(
                    f"{name}: its header says {sound.channels} channels, and at most {MAX_CHANNELS} are "
                    f"accepted; {_CONVERT}"
                )
            if cut is not None:
                raise _truncated(name, cut)
            return _read_blocks(sound, channel, name), sound.samplerate
    except soundfile.LibsndfileError as error:
        if cut is not None:
            raise _truncated(name, cut) from error
        reason = error.error_string.strip().rstrip(".")
        if "not recognised" in reason or "does not exist" in reason:
            raise AudioError(f"{name} is not audio, or of a kind that is not read; {_KINDS}") from error
        if "SF_INFO" in reason:
            reason = "its header has no valid sample rate or number of channels"
        raise AudioError(f"{name} cannot be decoded: {reason}; {_CONVERT}") from error
    except TypeError as error:  # on Windows, a name ending in .raw makes soundfile ask for a format
        raise AudioError(f"{name}: audio without a header cannot be read; {_CONVERT}") from error


def _truncated(name: str, how: str) -> AudioError:
    return AudioError(f"{name} is truncated: {how}; copy or download it again")


@contextlib.contextmanager
def _sound_file(file: BinaryIO) -> Iterator[soundfile.SoundFile]:
    import soundfile

    class Sequential(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no types
        """Read from start to end: soundfile seeks after each read, which a stream of unknown length fails."""

        def seekable(self) -> bool:
            return False

    if sys.platform == "win32":  # file descriptors cannot be passed between C runtimes
        file.seek(0)
        name = getattr(file, "name", None)
        with Sequential(name if isinstance(name, str) else file) as sound:
            yield sound
        return
    # The descriptor, not the path: names that are not valid UTF-8 work, and the suffix plays no part.
    # Its position is put back afterwards, since Python's buffer relies on it.
    descriptor = file.fileno()
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        with Sequential(descriptor, closefd=False) as sound:
            yield sound
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)


def _read_blocks(sound: soundfile.SoundFile, channel: int | None, name: str) -> Samples:
    import soundfile

    frames = max(1, _BLOCK_VALUES // sound.channels)
    blocks: list[Samples] = []
    count = 0
    try:
        while True:
            block = sound.read(frames, dtype="float32", always_2d=True)
            if len(block) == 0:
                break
            # A copy, so that a picked channel does not keep the whole block alive.
            blocks.append(np.array(_mono(block, channel, name)))
            count += len(block)
    except soundfile.LibsndfileError as error:
        reason = error.error_string.strip().rstrip(".").removeprefix("Error : ")
        where = f" after {count / sound.samplerate:.2f} s" if count else ""
        raise AudioError(
            f"{name} is truncated or damaged: decoding failed{where} ({reason}); copy or download it again"
        ) from error
    # Short although the container is whole: a failing disk, a damaged middle. Ogg may chain streams.
    slack = 2 * 1152 if sound.format == "MP3" else 0
    if sound.format != "OGG" and count + slack < sound.frames < 1 << 62:
        raise _truncated(name, f"its header promises {sound.frames} samples, {count} could be decoded")
    if count == 0:
        raise AudioError(f"{name} has no samples; check what was recorded")
    return np.concatenate(blocks)
