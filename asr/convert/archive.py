"""The ``.nemo`` archive: a tar, plain or gzip, with the configuration, the weights and the tokenizer.

A plain tar is read in place: a member is a window of the file, so the weights are never copied. A gzip one
has no random access; it is unpacked into a temporary file first, which is gone when the archive is closed.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from asr.errors import ModelFormatError, ModelNotFoundError, OutputError

# What tarfile and gzip raise on damaged files; ValueError and the like come from malformed headers.
_DAMAGED = (
    tarfile.TarError,
    EOFError,
    zlib.error,
    ValueError,
    OverflowError,
    RecursionError,
    gzip.BadGzipFile,
)

_MAGICS = (
    (b"GGUF", "a GGUF file, which needs no conversion"),
    (b"PK\x03\x04", "a zip file (a .nemo is a tar that holds such a checkpoint)"),
    (b"BZh", "a bzip2 file; unpack it first"),
    (b"\xfd7zXZ\x00", "an xz file; unpack it first"),
    (b"\x89HDF", "an HDF5 file"),
    (b"version https://git-lfs", "a Git LFS pointer; the file itself was not downloaded"),
    (b"<!DOCTYPE", "a web page"),
    (b"<html", "a web page"),
)


@dataclass(frozen=True, slots=True)
class Archive:
    """An open ``.nemo``: the source's name for messages and the regular members by name (without ``./``)."""

    label: str
    _tar: tarfile.TarFile
    _members: dict[str, tarfile.TarInfo]

    @property
    def names(self) -> list[str]:
        """Names of the regular files in the archive."""
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def open(self, name: str) -> IO[bytes]:
        """A seekable stream over a member, read in place.

        :raises ModelFormatError: there is no such member.
        """
        member = self._members.get(name)
        stream = None if member is None else self._tar.extractfile(member)
        if stream is None:
            raise ModelFormatError(
                f"{self.label}: there is no {name} in it (it holds {_some(self.names)}); "
                "a .nemo holds model_config.yaml, model_weights.ckpt and the tokenizer"
            )
        return stream

    def read(self, name: str, limit: int) -> bytes:
        """A small member's content, at most ``limit`` bytes.

        :raises ModelFormatError: no such member, or it is larger than that.
        """
        with self.open(name) as stream:
            if self._members[name].size > limit:
                raise ModelFormatError(
                    f"{self.label}: {name} is larger than {limit >> 20} MiB, which it never is"
                )
            try:
                return stream.read()
            except (*_DAMAGED, OSError) as error:
                raise ModelFormatError(f"{self.label}: {name} cannot be read: {error}") from error


@contextmanager
def open_archive(source: Path, scratch: Path) -> Iterator[Archive]:
    """Opens a ``.nemo`` file; ``scratch`` is the folder for the temporary file that a gzip archive needs.

    :raises ModelNotFoundError: there is no such file.
    :raises ModelFormatError: it cannot be read, or is no tar, or is damaged.
    :raises OutputError: the temporary file cannot be written.
    """
    label = str(source)
    try:
        file = source.open("rb")
    except FileNotFoundError as error:
        raise ModelNotFoundError(f"there is no file {label}") from error
    except IsADirectoryError as error:
        raise ModelFormatError(f"{label} is a folder; a .nemo file is needed") from error
    except OSError as error:
        # Windows reports a folder as a lack of permission.
        reason = "it is a folder" if source.is_dir() else error.strerror
        raise ModelFormatError(f"{label} cannot be read: {reason}") from error
    with file:
        magic = _read_magic(file, label)
        if magic.startswith(b"\x1f\x8b"):
            with _unpacked(file, label, scratch) as plain:
                yield _index(plain, label, magic)
        else:
            yield _index(file, label, magic)


def _read_magic(file: IO[bytes], label: str) -> bytes:
    try:
        magic = file.read(32)
        file.seek(0)
    except OSError as error:
        raise ModelFormatError(f"{label} cannot be read: {error}") from error
    return magic


@contextmanager
def _unpacked(file: IO[bytes], label: str, scratch: Path) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        try:
            plain = stack.enter_context(tempfile.TemporaryFile(dir=scratch))
            with gzip.GzipFile(fileobj=file) as unzipped:
                shutil.copyfileobj(unzipped, plain, 1 << 20)
        # BadGzipFile is an OSError: damage has to be told from a full disk, so it is caught first.
        except _DAMAGED as error:
            raise ModelFormatError(f"{label} is a damaged or truncated gzip file: {error}") from error
        except OSError as error:
            raise OutputError(
                f"{label} is compressed and cannot be unpacked in {scratch}: {error}"
            ) from error
        plain.seek(0)
        yield plain


def _index(file: IO[bytes], label: str, magic: bytes) -> Archive:
    """Reads the headers of all members; the tar object stays open as long as ``file`` does."""
    if not magic:
        raise ModelFormatError(f"{label} is empty")
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        tar = tarfile.TarFile(fileobj=file, mode="r")
        members = {_plain_name(m.name): m for m in tar.getmembers() if m.isreg() and not m.issparse()}
    except (*_DAMAGED, OSError) as error:
        found = next((text for prefix, text in _MAGICS if magic.startswith(prefix)), None)
        if found is not None:
            raise ModelFormatError(f"{label} is not a .nemo file but {found}") from error
        raise ModelFormatError(
            f"{label} is not a .nemo file (a tar archive), or is truncated: {error}"
        ) from error
    for name, member in members.items():
        if member.offset_data + member.size > size:
            raise ModelFormatError(
                f"{label} is truncated: {name} should end at byte {member.offset_data + member.size}, "
                f"the file has {size}; download it again"
            )
    return Archive(label, tar, members)


def _plain_name(name: str) -> str:
    return name[2:] if name.startswith("./") else name


def _some(names: list[str]) -> str:
    if not names:
        return "nothing"
    shown = ", ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"
