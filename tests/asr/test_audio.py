"""Audio input: every kind of source gives the same samples, and what cannot be used says why."""

from __future__ import annotations

import builtins
import io
import os
import struct
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from asr import audio, containers
from asr.audio import is_silent, load_audio
from asr.errors import AudioError

RATE = 16000
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")


def tone(seconds: float = 0.5, rate: int = RATE, channels: int = 1) -> np.ndarray:
    """Sines of different pitch in each channel, with a little noise; [n] or [n, channels]."""
    t = np.arange(int(seconds * rate)) / rate
    noise = np.random.default_rng(3).normal(scale=0.01, size=(len(t), channels))
    waves = 0.4 * np.sin(2 * np.pi * 200 * t[:, None] * np.arange(1, channels + 1)) + noise
    return (waves[:, 0] if channels == 1 else waves).astype(np.float32)


def wav_bytes(samples: np.ndarray, rate: int = RATE, **options: Any) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, **({"format": "WAV", "subtype": "PCM_16"} | options))
    return out.getvalue()


def raw_wav(channels: int, rate: int, data: bytes) -> bytes:
    """A 16-bit WAV whose header says anything."""
    align = 2 * channels & 0xFFFF
    fmt = struct.pack("<HHIIHH", 1, channels, rate, rate * align & 0xFFFFFFFF, align, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + fmt + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


class Unseekable(io.RawIOBase):
    """A file object as a pipe or a socket is one."""

    def __init__(self, content: bytes) -> None:
        self._inner = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._inner.readinto(buffer)


# ---- sources


@pytest.mark.parametrize(
    ("subtype", "tolerance"),
    [
        ("PCM_U8", 1 / 100),
        ("PCM_16", 1 / 30000),
        ("PCM_24", 1e-6),
        ("PCM_32", 1e-7),
        ("FLOAT", 0),
        ("DOUBLE", 0),
    ],
)
@pytest.mark.parametrize("container", ["WAV", "WAVEX", "RF64", "W64"])
def test_wav_of_every_width(subtype: str, tolerance: float, container: str, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, tone(), RATE, subtype=subtype, format=container)
    samples = load_audio(path)
    assert samples.dtype == np.float32
    assert samples.shape == (8000,)
    assert np.abs(samples - tone()).max() <= tolerance


@pytest.mark.parametrize(
    ("container", "subtype", "tolerance"),
    [
        ("FLAC", "PCM_16", 1e-4),
        ("FLAC", "PCM_24", 1e-6),
        ("AIFF", "PCM_16", 1e-4),
        ("AU", "PCM_16", 1e-4),
        ("CAF", "PCM_16", 1e-4),
        ("NIST", "PCM_16", 1e-4),
        ("OGG", "VORBIS", 0.3),
        ("OGG", "OPUS", 0.3),
        ("MP3", "MPEG_LAYER_III", 0.3),
    ],
)
def test_other_containers(container: str, subtype: str, tolerance: float, tmp_path: Path) -> None:
    path = tmp_path / "x"  # no suffix: the content says what it is
    soundfile.write(path, tone(1.0), RATE, format=container, subtype=subtype)
    samples = load_audio(str(path))
    assert len(samples) == 16000
    assert np.abs(samples - tone(1.0)).max() <= tolerance
    assert np.corrcoef(samples, tone(1.0))[0, 1] > 0.99


def test_every_kind_of_source_gives_the_same(tmp_path: Path) -> None:
    content = wav_bytes(tone())
    path = tmp_path / "ünï 音.wav"
    path.write_bytes(content)
    expected = load_audio(path)
    assert np.array_equal(load_audio(str(path)), expected)
    assert np.array_equal(load_audio(content), expected)
    assert np.array_equal(load_audio(io.BytesIO(content)), expected)
    assert np.array_equal(load_audio(Unseekable(content)), expected)  # type: ignore[arg-type]
    with path.open("rb") as file:
        assert np.array_equal(load_audio(file), expected)
    assert np.array_equal(load_audio(soundfile.read(path, dtype="float32")[0]), expected)
    assert np.array_equal(load_audio(soundfile.read(path, dtype="int16")[0]), expected)


@posix_only
@pytest.mark.skipif(sys.platform == "darwin", reason="names there are always UTF-8")
def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff\xfe.wav")
    with open(path, "wb") as file:
        file.write(wav_bytes(tone()))
    assert len(load_audio(os.fsdecode(path))) == 8000
    with pytest.raises(AudioError) as caught:
        load_audio(os.fsdecode(path + b"x"))
    str(caught.value).encode()  # printable as UTF-8


@posix_only
def test_a_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(wav_bytes(tone())))
    writer.start()
    assert len(load_audio(path)) == 8000
    writer.join()


@posix_only
def test_the_suffix_plays_no_part(tmp_path: Path) -> None:
    path = tmp_path / "x.raw"
    path.write_bytes(wav_bytes(tone()))
    assert len(load_audio(path)) == 8000


# ---- arrays


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32])
def test_integers_are_divided_by_their_full_scale(kind: type) -> None:
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    samples = load_audio(np.array([low, 0, high] * 100, dtype=kind))
    assert samples[:2].tolist() == [-1.0, 0.0]
    assert samples[2] == pytest.approx(1.0, abs=1e-2)


def test_uint8_is_centred_as_in_wav() -> None:
    assert load_audio(np.array([0, 128] * 100, dtype=np.uint8))[:2].tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_are_taken_as_they_are(kind: type) -> None:
    samples = load_audio(np.array([0.5, -1.5] * 100, dtype=kind))
    assert samples.dtype == np.float32
    assert samples[:2].tolist() == [0.5, -1.5]


def test_an_array_that_needs_no_change_is_not_copied() -> None:
    array = tone()
    assert np.shares_memory(load_audio(array), array)


def test_strided_and_read_only_arrays() -> None:
    array = tone(1.0)[::-2]
    array.flags.writeable = False
    samples = load_audio(array)
    assert samples.flags.c_contiguous
    assert np.array_equal(samples, array)


@pytest.mark.parametrize("kind", [np.int64, np.uint16, np.uint32, bool, complex, object])
def test_types_without_a_known_scale_are_refused(kind: type) -> None:
    with pytest.raises(AudioError, match="convert it to float32"):
        load_audio(np.zeros(1000, dtype=kind))


@pytest.mark.parametrize("shape", [(), (2, 500, 2)])
def test_shapes_that_are_no_recording(shape: tuple[int, ...]) -> None:
    with pytest.raises(AudioError, match=r"\[samples, channels\]"):
        load_audio(np.zeros(shape, dtype=np.float32))


def test_channels_first_is_explained_and_not_guessed() -> None:
    with pytest.raises(AudioError, match=r"array\.T"):
        load_audio(tone(channels=2).T)
    assert len(load_audio(np.zeros((500, 64), dtype=np.float32))) == 500


def test_the_rate_of_an_array() -> None:
    assert len(load_audio(tone(rate=8000), 8000)) == 8000
    assert len(load_audio(tone(rate=44100), sample_rate=44100, target_rate=8000)) == 4000
    for rate in (0, -8000, 3):
        with pytest.raises(AudioError, match=f"{rate} Hz"):
            load_audio(tone(), rate)


def test_something_else_is_refused() -> None:
    with pytest.raises(AudioError, match="int"):
        load_audio(5)  # type: ignore[arg-type]
    with pytest.raises(AudioError, match="binary mode"):
        load_audio(io.StringIO("text"))  # type: ignore[arg-type]


# ---- rates and channels


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_resampling_is_soxr_hq(rate: int, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, tone(rate=rate), rate, subtype="FLOAT")
    assert np.array_equal(load_audio(path), soxr.resample(tone(rate=rate), rate, RATE, quality="HQ"))


def test_mixing_down_and_picking_a_channel(tmp_path: Path) -> None:
    stereo = tone(channels=2)
    path = tmp_path / "x.wav"
    soundfile.write(path, stereo, RATE, subtype="FLOAT")
    for source in (path, stereo):
        assert np.allclose(load_audio(source), stereo.mean(axis=1), atol=1e-7)
        assert np.array_equal(load_audio(source, channel=1), stereo[:, 0])
        assert np.array_equal(load_audio(source, channel=2), stereo[:, 1])
        for channel in (0, 3, -1):
            with pytest.raises(
                AudioError, match=f"2 channels, numbered from 1; there is no channel {channel}"
            ):
                load_audio(source, channel=channel)
    assert len(load_audio(tone(), channel=1)) == 8000
    with pytest.raises(AudioError, match="1 channel,"):
        load_audio(tone(), channel=2)


def test_reading_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    content = wav_bytes(tone(channels=3))
    expected = load_audio(content)
    monkeypatch.setattr(audio, "_BLOCK_VALUES", 1000)
    assert np.array_equal(load_audio(content), expected)


# ---- what cannot be used


def test_a_missing_file_a_folder_and_a_device(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"gone\.wav: no such file"):
        load_audio(tmp_path / "gone.wav")
    with pytest.raises(AudioError, match="folder"):
        load_audio(tmp_path)
    with pytest.raises(AudioError, match="cannot be read"):
        load_audio("nul\0character.wav")
    if os.path.exists("/dev/zero"):
        with pytest.raises(AudioError, match="device"):
            load_audio("/dev/zero")
        with pytest.raises(AudioError, match="empty"):
            load_audio(os.devnull)


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(wav_bytes(tone()))

    def refused(*args: Any, **options: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(builtins, "open", refused)  # a mode of 000 would not stop root
    with pytest.raises(AudioError, match=r"x\.wav: no permission"):
        load_audio(path)


def test_a_disk_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(containers, "truncation", failing)
    with pytest.raises(AudioError, match="Input/output error"):
        load_audio(wav_bytes(tone()))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello, this is a text\n" * 100, "not audio"),
        (bytes(5000), "not audio"),
        (b"\xff" * 5000, "can be recognised"),
        (np.random.default_rng(1).bytes(5000), "can be recognised"),
        (b"\0\0\0\x20ftypM4A " + bytes(500), "MP4 or M4A.*ffmpeg"),
        (b"GGUF" + bytes(500), "GGUF model"),
        (raw_wav(1, RATE, b""), "no samples"),
        (raw_wav(1, RATE, bytes(318)), "too short: 159 samples.* 160"),
        (raw_wav(1000, RATE, bytes(2_000_000)), "1000 channels.* 64"),
        (raw_wav(0, RATE, bytes(2000)), "Channel count is zero"),
        (raw_wav(1, 0, bytes(2000)), "no valid sample rate"),
        (raw_wav(1, 5, bytes(2000)), "5 Hz"),
    ],
)
def test_bad_content(content: bytes, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AudioError, match=message):
        load_audio(content)
    assert capfd.readouterr() == ("", "")  # no decoder prints anything of its own


def test_a_thousand_channels_are_named_even_when_cut() -> None:
    with pytest.raises(AudioError, match="1000 channels"):
        load_audio(raw_wav(1000, RATE, bytes(2_000_000))[:5000])


def test_exactly_the_shortest() -> None:
    assert len(load_audio(raw_wav(1, RATE, bytes(320)))) == 160
    assert len(load_audio(raw_wav(1, 8000, bytes(160)))) == 160
    with pytest.raises(AudioError, match="too short"):
        load_audio(np.zeros(159, dtype=np.float32))
    with pytest.raises(AudioError, match="no samples"):
        load_audio(np.zeros(0, dtype=np.float32))


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_values_that_are_not_finite(value: float, name: str) -> None:
    samples = tone()
    samples[4000] = value
    for source in (samples, wav_bytes(samples, subtype="FLOAT"), samples.astype(np.float64)):
        with pytest.raises(AudioError, match=f"not finite; the first is {name} at 0.250 s"):
            load_audio(source)


def test_values_beyond_float32_and_beyond_reason() -> None:
    with pytest.raises(AudioError, match="infinity"):
        load_audio(np.full(1000, 1e300))
    with pytest.raises(AudioError, match="scale the audio"):
        load_audio(np.full(1000, -1e20, dtype=np.float32))


def test_a_bad_value_in_a_channel_that_is_not_used() -> None:
    stereo = tone(channels=2)
    stereo[7, 1] = np.nan
    assert len(load_audio(stereo, channel=1)) == 8000
    with pytest.raises(AudioError, match="NaN"):
        load_audio(stereo)


def test_the_file_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(wav_bytes(tone())[:1000])
    before = path.stat()
    with pytest.raises(AudioError):
        load_audio(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="Linux only")
def test_no_file_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(wav_bytes(tone()))
    load_audio(path)
    before = os.listdir("/proc/self/fd")
    for source in (path, path.read_bytes(), path.read_bytes()[:500], tmp_path, tmp_path / "gone"):
        try:
            load_audio(source)
        except AudioError:
            continue
    assert os.listdir("/proc/self/fd") == before


def test_silence() -> None:
    assert is_silent(np.zeros(1000, dtype=np.float32))
    assert not is_silent(np.r_[np.zeros(1000), 1e-9])
    assert is_silent(load_audio(raw_wav(1, 8000, bytes(4000))))
