"""What an audio file's own header says about its length, compared with the bytes that are there.

libsndfile reads a file that was cut off as a shorter one without a word, so the check is made here, before
decoding, by walking the container's chunks, pages or frames. Layouts: RIFF, RF64 (EBU Tech 3306), Sony
Wave64, AIFF, Sun AU, Apple CAF, NIST SPHERE, Ogg (RFC 3533) and MPEG audio with the Xing/Info tag. FLAC
needs no walk: its decoder notices.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

# Recorders that write to a pipe cannot go back to fill in the size; they leave one of these (or 0).
_STREAMING_SIZE = 0x7FFF0000
_W64_RIFF = bytes.fromhex("726966662e91cf11a5d628db04c10000")
_W64_DATA = bytes.fromhex("64617461f3acd3118cd100c04f8edb8a")

_FOREIGN = (
    (0, b"\x1aE\xdf\xa3", "a Matroska or WebM file"),
    (4, b"ftyp", "an MP4 or M4A file"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "a WMA or ASF file"),
    (0, b"#!AMR", "an AMR file"),
    (0, b"GGUF", "a GGUF model"),
    (0, b"\x89PNG", "a PNG picture"),
    (0, b"\xff\xd8\xff", "a JPEG picture"),
    (0, b"%PDF", "a PDF document"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"\x1f\x8b", "a gzip archive"),
)


def foreign_kind(head: bytes) -> str | None:
    """The name of a well-known kind of file that is not read here, from its first 4096 bytes; else None.

    MPEG audio has no magic number, and its decoder searches on in anything that begins with 11 set bits;
    so such a beginning has to be a whole frame followed by another.
    """
    for offset, magic, name in _FOREIGN:
        if head[offset : offset + len(magic)] == magic:
            return name
    if len(head) >= 2 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0:
        return "a raw AAC stream"
    if _is_mp3_sync(head) and not _is_mp3_frame(head):
        return "no kind of audio that can be recognised"
    return None


def truncation(file: BinaryIO, size: int) -> str | None:
    """Say how ``file`` (seekable, ``size`` bytes) is cut off, or None when nothing is missing.

    Only what the container itself promises is checked; formats without such a promise give None.
    """
    file.seek(0)
    head = file.read(64)
    magic = head[:4]
    if magic in (b"RIFF", b"RIFX"):
        return _riff(file, size, "<" if magic == b"RIFF" else ">")
    if magic in (b"RF64", b"BW64"):
        return _riff(file, size, "<")
    if magic == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return _riff(file, size, ">", data_id=b"SSND")
    if head[:16] == _W64_RIFF:
        return _w64(file, size)
    if magic in (b".snd", b"dns.") and len(head) >= 12:
        order = ">" if magic == b".snd" else "<"
        offset, length = struct.unpack(order + "II", head[4:12])
        return None if length >= _STREAMING_SIZE else _missing("sound data", offset + length, size)
    if magic == b"caff":
        return _caf(file, size)
    if head[:7] == b"NIST_1A":
        return _nist(file, size)
    if magic == b"OggS":
        return _ogg(file, size)
    if magic[:3] == b"ID3" or _is_mp3_sync(head):
        return _mp3(file, size, head)
    return None


def unsized_wav_data(file: BinaryIO, size: int) -> int | None:
    """Offset of the size field of a WAV data chunk that says 0 although samples follow; else None.

    Recorders that were stopped hard, or that wrote to a pipe, leave such headers.
    """
    file.seek(0)
    if file.read(4) != b"RIFF":
        return None
    found = _find_riff_data(file, size, "<", b"data")
    if not isinstance(found, tuple) or found[1] != 0:
        return None
    start = found[0]
    file.seek(start)
    following = file.read(8)
    if len(following) < 8:
        return None
    chunk, length = following[:4], struct.unpack("<I", following[4:])[0]
    # An empty recording with a further chunk (LIST, id3 ...) after its data is empty, not unsized.
    if chunk.isascii() and chunk.decode("ascii").isprintable() and start + 8 + length <= size:
        return None
    return start - 4


def _missing(what: str, end: int, size: int) -> str | None:
    if end <= size:
        return None
    return f"its header promises {what} up to byte {end}, the file ends at byte {size}"


def _find_riff_data(file: BinaryIO, size: int, order: str, data_id: bytes) -> tuple[int, int] | str | None:
    """(offset, length) of the data chunk; a message when another chunk is cut; None when there is none."""
    position = 12
    long_size: int | None = None
    while position + 8 <= size:
        file.seek(position)
        header = file.read(8)
        chunk, length = header[:4], struct.unpack(order + "I", header[4:])[0]
        if chunk == b"ds64" and length >= 16:
            long_size = struct.unpack("<Q", file.read(16)[8:])[0]
        if chunk == data_id:
            if long_size is not None and length == 0xFFFFFFFF:
                return position + 8, long_size
            return position + 8, -1 if length >= _STREAMING_SIZE else length
        position += 8 + length + (length & 1)
    if position > size + 1:
        return f"its header ends in the middle (chunk up to byte {position}, the file has {size})"
    return None


def _riff(file: BinaryIO, size: int, order: str, data_id: bytes = b"data") -> str | None:
    found = _find_riff_data(file, size, order, data_id)
    if found is None:
        return "it ends before its sound data"
    if isinstance(found, str):
        return found
    return _missing("sound data", found[0] + found[1], size)


def _w64(file: BinaryIO, size: int) -> str | None:
    position = 40
    while position + 24 <= size:
        file.seek(position)
        header = file.read(24)
        length = struct.unpack("<Q", header[16:])[0]  # counts its own 24 bytes
        if header[:16] == _W64_DATA:
            streaming = length >= 1 << 62
            return None if streaming else _missing("sound data", position + length, size)
        if length < 24:
            return None  # not a sane header: libsndfile says what is wrong
        position += length + (-length) % 8
    return "it ends before its sound data"


def _caf(file: BinaryIO, size: int) -> str | None:
    position = 8
    data_seen = False
    while position + 12 <= size:
        file.seek(position)
        header = file.read(12)
        length = struct.unpack(">q", header[4:])[0]
        data_seen = data_seen or header[:4] == b"data"
        if length < 0:
            return None  # -1: the data goes on to the end of the file
        position += 12 + length
        if position > size:
            return _missing("sound data", position, size)
    return None if data_seen else "it ends before its sound data"


def _nist(file: BinaryIO, size: int) -> str | None:
    """NIST SPHERE: an ASCII header of ``name -type value`` lines; its second line is its own length."""
    file.seek(0)
    lines = file.read(1024).decode("ascii", "replace").split("\n")
    fields = {parts[0]: parts[2] for line in lines[2:] if len(parts := line.split()) >= 3}
    names = ("sample_count", "channel_count", "sample_n_bytes")
    try:
        header, (count, channels, width) = int(lines[1]), (int(fields[name]) for name in names)
    except (ValueError, KeyError, IndexError):
        return None  # not complete: what is there is all that is known
    return _missing("sound data", header + count * channels * width, size)


def _ogg(file: BinaryIO, size: int) -> str | None:
    """Walk the pages; each logical stream that begins must reach a page with the end-of-stream flag."""
    position = 0
    open_streams: set[bytes] = set()
    while position + 27 <= size:
        file.seek(position)
        header = file.read(27)
        if header[:4] != b"OggS":
            break
        table = file.read(header[26])
        position += 27 + header[26] + sum(table)
        if len(table) < header[26] or position > size:
            return "its last page is cut"
        serial, flags = header[14:18], header[5]
        if flags & 4:
            open_streams.discard(serial)
        else:
            open_streams.add(serial)
    if open_streams:
        return "its stream has no end: the last pages are missing or damaged"
    return None


# MPEG audio: bit rates in kbit/s by (MPEG-1?, layer), sample rates by version bits.
_MP3_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_MP3_BITS = {
    (True, 1): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


def _is_mp3_sync(head: bytes) -> bool:
    return len(head) >= 4 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0


def _is_mp3_frame(head: bytes) -> bool:
    """True when a frame begins here and, as far as ``head`` reaches, another one follows it."""
    length = _mp3_frame_length(head)
    if length is None:
        # A free-format frame (bit-rate index 0) is legal although its length is not in the header.
        return head[2] >> 4 == 0 and head[1] & 0x06 != 0
    following = head[length : length + 4]
    return len(following) < 4 or _is_mp3_sync(following) or following[:3] == b"TAG"


def _mp3_frame_length(header: bytes) -> int | None:
    """Bytes in the frame that begins with this 4-byte header; None when it is not one (or free format)."""
    if not _is_mp3_sync(header):
        return None
    version, layer = header[1] >> 3 & 3, 4 - (header[1] >> 1 & 3)
    bits, rate, padding = header[2] >> 4, header[2] >> 2 & 3, header[2] >> 1 & 1
    if version == 1 or layer == 4 or bits in (0, 15) or rate == 3:
        return None
    bit_rate = 1000 * _MP3_BITS[version == 3, layer][bits]
    sample_rate = _MP3_RATES[version][rate]
    if layer == 1:
        return (12 * bit_rate // sample_rate + padding) * 4
    half = 72 if layer == 3 and version != 3 else 144
    return half * bit_rate // sample_rate + padding


def _mp3(file: BinaryIO, size: int, head: bytes) -> str | None:
    """Compare with the Xing/Info tag's byte count; without one, see whether the last frame is whole."""
    position = 0
    if head[:3] == b"ID3" and len(head) >= 10:
        position = 10 + (head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9])
        if position > size:
            return "it ends inside its ID3 tag"
    file.seek(position)
    first = file.read(256)
    tag = max(first.find(b"Xing", 0, 40), first.find(b"Info", 0, 40))
    if _is_mp3_sync(first) and tag > 0:
        flags = struct.unpack(">I", first[tag + 4 : tag + 8])[0]
        at = tag + 8 + (4 if flags & 1 else 0)
        if flags & 2 and len(first) >= at + 4:
            return _missing("sound data", position + struct.unpack(">I", first[at : at + 4])[0], size)
    while position + 4 <= size:
        file.seek(position)
        length = _mp3_frame_length(file.read(4))
        if length is None:
            return None  # a tag or padding after the last frame
        position += length
    return _missing("its last frame", position, size)
