"""ggml's messages in Python's logging: levels, lines in parts, threads, forks, handlers that misbehave."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

import ggml

NONE, DEBUG, INFO, WARN, ERROR, CONT = range(6)


def library(kind: type[ctypes.CDLL]) -> ctypes.CDLL:
    """The loaded libggml-base; its functions are called with the GIL (PyDLL) or without it (CDLL)."""
    try:
        lib = kind("libggml-base.so.0")
    except OSError:
        pytest.skip("libggml-base cannot be reached by its name here")
    lib.ggml_log_internal.argtypes = [ctypes.c_int, ctypes.c_char_p]
    return lib


@pytest.fixture(params=[ctypes.CDLL, ctypes.PyDLL], ids=["without the GIL", "with the GIL"])
def base(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return library(request.param)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    deliver()
    caplog.set_level(logging.DEBUG, "ggml")
    caplog.clear()
    return caplog


def deliver() -> None:
    """Any call of the package does."""
    ggml.Context(1 << 12)


def test_levels(base: ctypes.CDLL, log: pytest.LogCaptureFixture) -> None:
    for level in (NONE, DEBUG, INFO, WARN, ERROR):
        base.ggml_log_internal(level, b"message %d\n" % level)
    deliver()
    assert [(r.levelno, r.getMessage()) for r in log.records] == [
        (logging.INFO, "message 0"),
        (logging.DEBUG, "message 1"),
        (logging.INFO, "message 2"),
        (logging.WARNING, "message 3"),
        (logging.ERROR, "message 4"),
    ]
    assert {r.name for r in log.records} == {"ggml"}


def test_a_line_in_parts_is_one_record(base: ctypes.CDLL, log: pytest.LogCaptureFixture) -> None:
    base.ggml_log_internal(WARN, b"loading ")
    for _ in range(3):
        base.ggml_log_internal(CONT, b".")
    base.ggml_log_internal(CONT, b" done\n")
    base.ggml_log_internal(CONT, b"and more of it\n")
    base.ggml_log_internal(ERROR, b"no end of line")
    base.ggml_log_internal(INFO, b"\n")
    base.ggml_log_internal(INFO, b"two\nlines\n")
    deliver()
    assert [(r.levelno, r.getMessage()) for r in log.records] == [
        (logging.WARNING, "loading ... done"),
        (logging.WARNING, "and more of it"),
        (logging.ERROR, "no end of line"),
        (logging.INFO, "two\nlines"),
    ]


def test_percent_signs_and_odd_bytes(base: ctypes.CDLL, log: pytest.LogCaptureFixture) -> None:
    base.ggml_log_internal(INFO, b"50%% of \xff {}\n")
    deliver()
    assert [r.getMessage() for r in log.records] == ["50% of \ufffd {}"]


def test_the_logger_filters(base: ctypes.CDLL, caplog: pytest.LogCaptureFixture) -> None:
    deliver()
    caplog.clear()
    for level, expected in ((logging.WARNING, ["b"]), (logging.DEBUG, ["a", "b"]), (logging.CRITICAL, [])):
        caplog.set_level(level, "ggml")
        base.ggml_log_internal(DEBUG, b"a\n")
        base.ggml_log_internal(WARN, b"b\n")
        deliver()
        assert [r.getMessage() for r in caplog.records] == expected
        caplog.clear()


def test_a_refusal_is_logged_and_raised(log: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ggml.GgmlError, match="invalid magic"):
        ggml.GgufFile(b"RIFF" * 16)
    assert "invalid magic" in log.records[0].getMessage()
    assert log.records[0].levelno == logging.ERROR


def test_time_and_thread_of_the_message(base: ctypes.CDLL, log: pytest.LogCaptureFixture) -> None:
    before = time.time()
    thread = threading.Thread(target=base.ggml_log_internal, args=(WARN, b"from there\n"), name="there")
    thread.start()
    ident = thread.ident
    thread.join()
    after = time.time()
    deliver()
    (record,) = log.records
    assert before - 0.1 <= record.created <= after + 0.1
    assert record.thread == ident
    assert record.threadName == f"ggml-{ident}"


def test_many_threads_log_and_deliver(base: ctypes.CDLL, log: pytest.LogCaptureFixture) -> None:
    def work(n: int) -> None:
        for i in range(50):
            base.ggml_log_internal(INFO, b"%d " % n)
            base.ggml_log_internal(CONT, b"%d\n" % i)
            deliver()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deliver()
    assert sorted(r.getMessage() for r in log.records) == sorted(
        f"{n} {i}" for n in range(8) for i in range(50)
    )


def test_the_end_of_a_thread_ends_its_line(base: ctypes.CDLL, log: pytest.LogCaptureFixture) -> None:
    thread = threading.Thread(target=base.ggml_log_internal, args=(WARN, b"cut off"))
    thread.start()
    thread.join()
    for _ in range(1000):  # join() returns a little before the system's thread ends
        deliver()
        if log.records:
            break
        time.sleep(0.01)
    assert [r.getMessage() for r in log.records] == ["cut off"]


def test_a_flood_keeps_what_matters(base: ctypes.CDLL, log: pytest.LogCaptureFixture) -> None:
    base.ggml_log_internal(ERROR, b"first\n")
    for i in range(1500):
        base.ggml_log_internal(DEBUG, b"%d\n" % i)
    base.ggml_log_internal(ERROR, b"last\n")
    deliver()
    texts = [r.getMessage() for r in log.records]
    assert texts[0] == "502 messages of ggml were lost: too many at once"
    assert texts[1] == "first"
    assert texts[-2:] == ["1499", "last"]
    assert len(texts) == 1001


class Handler(logging.Handler):
    """Does what a test asks for with each record."""

    def __init__(self, base: ctypes.CDLL, error: BaseException | None = None) -> None:
        super().__init__()
        self.base, self.error = base, error
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.base.ggml_log_internal(WARN, b"logged by a handler\n")
        deliver()
        if self.error is not None:
            raise self.error


@pytest.fixture
def handler(base: ctypes.CDLL) -> Handler:
    return Handler(base)


def test_a_handler_that_uses_ggml(base: ctypes.CDLL, handler: Handler) -> None:
    logger = logging.getLogger("ggml")
    deliver()
    logger.addHandler(handler)
    try:
        base.ggml_log_internal(WARN, b"one\n")
        deliver()
        assert handler.texts == ["one"]
        deliver()
        assert handler.texts == ["one", "logged by a handler"]
    finally:
        logger.removeHandler(handler)
        deliver()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_handler_that_raises(base: ctypes.CDLL, handler: Handler) -> None:
    logger = logging.getLogger("ggml")
    deliver()
    handler.error = RuntimeError("a handler's own")
    logger.addHandler(handler)
    try:
        base.ggml_log_internal(WARN, b"one\n")
        deliver()  # what the caller asked for is done
        with pytest.raises(ggml.GgmlError, match="invalid magic"):
            ggml.GgufFile(b"RIFF" * 16)  # and what went wrong there is what is raised
    finally:
        logger.removeHandler(handler)
        deliver()


@pytest.fixture
def ctrl_c_raises() -> Iterator[None]:
    """Python's own handler of Ctrl-C, which is ignored where pytest runs in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_in_a_handler_is_not_lost(base: ctypes.CDLL, handler: Handler) -> None:
    logger = logging.getLogger("ggml")
    deliver()
    handler.error = KeyboardInterrupt()
    logger.addHandler(handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  (raised a little later)
            base.ggml_log_internal(WARN, b"one\n")
            deliver()
            for _ in range(1000):
                time.sleep(0.001)
    finally:
        logger.removeHandler(handler)
        deliver()


def run(code: str) -> subprocess.CompletedProcess[str]:
    prelude = "import ctypes, logging, os, threading, ggml\nbase = ctypes.CDLL('libggml-base.so.0')\n"
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", prelude + code], capture_output=True, text=True, timeout=60
    )


def test_exit_delivers_what_is_left(base: ctypes.CDLL) -> None:
    done = run(
        "logging.basicConfig(format='%(levelname)s %(message)s')\n"
        "base.ggml_log_internal(3, b'at the end\\n')\n"
        "base.ggml_log_internal(4, b'without a newline')"
    )
    assert done.returncode == 0
    assert done.stderr.splitlines() == ["WARNING at the end", "ERROR without a newline"]


def test_messages_after_the_exit_of_python(base: ctypes.CDLL) -> None:
    """As from a library that is unloaded by the C runtime, and a thread that goes on."""
    done = run(
        "import atexit, ggml._core\n"
        "def late():\n"
        "    ggml._core.stop_log()\n"
        "    base.ggml_log_internal(2, b'not this\\n')\n"
        "    base.ggml_log_internal(4, b'late\\n')\n"
        "    ggml.Context(4096)\n"
        "atexit.register(late)\n"
        "def forever():\n"
        "    while True: base.ggml_log_internal(2, b'x\\n')\n"
        "threading.Thread(target=forever, daemon=True).start()"
    )
    assert done.returncode == 0
    assert done.stderr == "late\n"


def test_without_configuration_nothing_is_printed(base: ctypes.CDLL) -> None:
    done = run("base.ggml_log_internal(4, b'quiet\\n'); ggml.Context(4096)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_only_its_own_messages(base: ctypes.CDLL) -> None:
    done = run(
        "logging.basicConfig(format='%(message)s')\n"
        "stop = False\n"
        "def busy():\n"
        "    while not stop: base.ggml_log_internal(1, b'x\\n')\n"
        "t = threading.Thread(target=busy); t.start()\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "base.ggml_log_internal(4, b'parent\\n')\n"
        "for _ in range(20):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        base.ggml_log_internal(4, b'child\\n'); ggml.Context(4096); os._exit(0)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
        "stop = True; t.join()"
    )
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if "lost" not in line]
    assert lines == ["child"] * 20 + ["parent"]
