"""Files that are cut off: found in every container, and never where a file is whole."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
import soundfile

from asr import containers
from asr.audio import load_audio
from asr.errors import AudioError

RATE = 16000


def tone(seconds: float = 0.5) -> np.ndarray:
    """A sine with a little noise; [n]."""
    t = np.arange(int(seconds * RATE)) / RATE
    return 0.4 * np.sin(2 * np.pi * 200 * t) + np.random.default_rng(3).normal(scale=0.01, size=len(t))


def encoded(samples: np.ndarray, **options: Any) -> bytes:
    """The bytes of a file with these samples; ``format`` and ``subtype`` are soundfile's."""
    out = io.BytesIO()
    soundfile.write(out, samples, RATE, **options)
    return out.getvalue()


def wav(samples: np.ndarray, size: int | None = None) -> bytes:
    """A 16-bit WAV whose data chunk claims ``size`` bytes, by default what it has."""
    content = bytearray(encoded(samples, format="WAV", subtype="PCM_16"))
    assert content[36:40] == b"data"
    if size is not None:
        content[40:44] = struct.pack("<I", size)
    return bytes(content)


@pytest.mark.parametrize(
    ("container", "subtype"),
    [
        ("WAV", "PCM_16"),
        ("WAV", "IMA_ADPCM"),
        ("WAVEX", "PCM_24"),
        ("RF64", "PCM_16"),
        ("W64", "PCM_16"),
        ("AIFF", "PCM_16"),
        ("AU", "PCM_16"),
        ("CAF", "PCM_16"),
        ("NIST", "PCM_16"),
        ("FLAC", "PCM_16"),
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
        ("MP3", "MPEG_LAYER_III"),
    ],
)
@pytest.mark.parametrize("kept", [0.999, 0.9, 0.5, 0.1])
def test_a_file_that_is_cut(
    container: str, subtype: str, kept: float, capfd: pytest.CaptureFixture[str]
) -> None:
    content = encoded(tone(2.0), format=container, subtype=subtype)
    assert len(load_audio(content)) >= 32000
    with pytest.raises(AudioError, match="truncated"):
        load_audio(content[: int(len(content) * kept)])
    assert capfd.readouterr() == ("", "")


def test_a_flac_that_is_cut_between_frames() -> None:
    content = bytearray(encoded(np.zeros(8192), format="FLAC"))
    content[8 + 13] &= 0xF0  # total samples: 36 bits that end here
    content[8 + 14 : 8 + 18] = struct.pack(">I", 20000)
    content[8 + 18 : 8 + 34] = bytes(16)  # no MD5
    with pytest.raises(AudioError, match="truncated"):
        load_audio(bytes(content))


def test_an_mp3_with_a_damaged_middle() -> None:
    content = bytearray(encoded(tone(2.0), format="MP3", subtype="MPEG_LAYER_III"))
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    with pytest.raises(AudioError, match="truncated"):
        load_audio(bytes(content))


def test_a_flac_of_unknown_length() -> None:
    content = bytearray(encoded(tone(), format="FLAC"))
    content[8 + 13] &= 0xF0
    content[8 + 14 : 8 + 18] = bytes(4)
    assert len(load_audio(bytes(content))) == 8000


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7FFFF000])
def test_the_sizes_that_a_wav_written_to_a_pipe_has(size: int) -> None:
    assert len(load_audio(wav(tone(), size))) == 8000


def test_an_empty_recording_with_a_further_chunk_is_empty() -> None:
    with pytest.raises(AudioError, match="no samples"):
        load_audio(wav(np.zeros(0)) + b"LIST" + struct.pack("<I", 4) + b"INFO")


def test_an_mp3_without_a_xing_tag() -> None:
    content = encoded(tone(2.0), format="MP3", subtype="MPEG_LAYER_III")
    length = containers._mp3_frame_length(content[:4])
    assert b"Xing" in content[:length]
    plain = content[length:]
    assert len(load_audio(plain)) > 16000
    assert len(load_audio(plain + b"TAG" + bytes(125))) > 16000
    with pytest.raises(AudioError, match="last frame"):
        load_audio(plain[:-20])


def test_a_container_whose_length_cannot_be_checked_is_not_read() -> None:
    with pytest.raises(AudioError, match=r"VOC.*WAV, FLAC.*ffmpeg"):
        load_audio(encoded(tone(), format="VOC"))


def test_an_ogg_without_its_last_page() -> None:
    content = encoded(tone(2.0), format="OGG", subtype="VORBIS")
    with pytest.raises(AudioError, match="truncated: its stream has no end"):
        load_audio(content[: content.rindex(b"OggS")])
