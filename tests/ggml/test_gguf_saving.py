"""GGUF on disk: data in parts, little memory, all or nothing, links and places that cannot be written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ggml
from ggml import Type


def read(path: Path) -> ggml.GgufFile:
    return ggml.GgufFile(np.fromfile(path, np.uint8))


def allocated(type: Type, ne: list[int]) -> ggml.Tensor:
    context = ggml.Context(1 << 16)
    tensor = context.new_tensor(type, ne)
    ggml.alloc_ctx_tensors(context, ggml.Backend())
    return tensor


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.gguf"


def test_data_in_parts(path: Path) -> None:
    size = 10 << 20

    def parts() -> Iterator[bytes]:
        for i in range(10):
            yield bytes([i]) * (1 << 20)

    writer = ggml.GgufWriter()
    writer.add_bytes("parts", Type.I8, [size], parts)
    big = allocated(Type.I8, [size])
    big.set(np.arange(size, dtype=np.int8))
    writer.add_tensor(big, "big")
    for _ in range(2):  # a writer can write again
        writer.write(path)
        file = read(path)
        file.map_tensors()
        tensors = file.tensors()
        assert np.array_equal(tensors["parts"].get(), np.repeat(np.arange(10, dtype=np.int8), 1 << 20))
        assert np.array_equal(tensors["big"].get(), big.get())
    for wrong in ((b"1",), (b"123", b"4567"), ()):
        other = ggml.GgufWriter()
        other.add_bytes("t", Type.I8, [4], lambda wrong=wrong: wrong)
        with pytest.raises(ValueError, match="'t' takes 4 bytes, the function gave"):
            other.write(path.with_name("wrong.gguf"))
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_small(path: Path) -> None:
    code = (
        "import sys, resource, numpy as np, ggml\n"
        "def parts():\n"
        "    for _ in range(300): yield bytes(1 << 20)\n"
        "w = ggml.GgufWriter()\n"
        "c = ggml.Context(1 << 16); t = c.new_tensor(24, [64 << 20])\n"
        "ggml.alloc_ctx_tensors(c, ggml.Backend()); t.set(np.ones(64 << 20, np.int8))\n"
        "w.add_tensor(t, 'a'); w.add_bytes('b', 24, [300 << 20], parts)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "w.write(sys.argv[1])\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert path.stat().st_size > 364 << 20
    assert int(done.stdout) < 30  # MiB


def test_all_or_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    def interrupted() -> Iterator[bytes]:
        yield b"1"
        raise KeyboardInterrupt

    path.write_bytes(b"what was there")
    path.chmod(0o640)
    writer = ggml.GgufWriter()
    writer.set("k", "v")
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="No space left"):
                writer.write(path)
    other = ggml.GgufWriter()
    other.add_bytes("t", Type.I8, [4], interrupted)
    with pytest.raises(KeyboardInterrupt):
        other.write(path)
    assert path.read_bytes() == b"what was there"
    assert os.listdir(path.parent) == [path.name]
    writer.write(str(path))
    assert read(path)["k"] == "v"
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == [path.name]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    writer = ggml.GgufWriter()
    with pytest.raises(FileNotFoundError):
        writer.write(tmp_path / "no such folder" / "x.gguf")
    with pytest.raises(OSError, match="not a regular file"):
        writer.write(tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        writer.write(os.devnull)
    with pytest.raises(ValueError, match="null"):
        writer.write("a\0b")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="the limit is POSIX's")
def test_a_full_disk(path: Path) -> None:
    code = (
        "import sys, resource, signal, ggml\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "w = ggml.GgufWriter(); w.add_bytes('b', 24, [8 << 20], bytes(8 << 20))\n"
        "try: w.write(sys.argv[1])\n"
        "except OSError as error: print(error.strerror)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert os.listdir(path.parent) == []


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    ggml.GgufWriter().write(link)
    assert link.is_symlink()
    assert read(target).metadata() == {}
