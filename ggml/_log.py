"""ggml's log messages as records of ``logging.getLogger("ggml")``.

ggml logs from any thread; a record is made when the next call of this package ends on a thread that holds the
GIL, with the time and the thread of the message. The package adds no handler but a ``NullHandler``.
"""

from __future__ import annotations

import atexit
import logging
import threading

from ggml import _core

_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_logger = logging.getLogger("ggml")


def route() -> None:
    """Sends ggml's messages to the logger until the interpreter exits."""
    _logger.addHandler(logging.NullHandler())
    _core.start_log(_deliver)
    # The handlers of `logging`, which was imported before, are still open then.
    atexit.register(_core.stop_log)


def _deliver(messages: list[tuple[int, float, int, str]], dropped: int) -> None:
    if dropped:
        _logger.warning("%d messages of ggml were lost: too many at once", dropped)
    for level, time, thread, text in messages:
        if _logger.isEnabledFor(_LEVELS[level]):
            _logger.handle(_record(_LEVELS[level], time, thread, text))


def _record(level: int, time: float, thread: int, text: str) -> logging.LogRecord:
    record = _logger.makeRecord(_logger.name, level, "ggml", 0, text, (), None)
    record.relativeCreated -= (record.created - time) * 1000
    record.created = time
    record.msecs = float(int(time % 1 * 1000))
    if thread != threading.get_ident():
        names = {t.ident: t.name for t in threading.enumerate()}
        record.thread = thread
        record.threadName = names.get(thread, f"ggml-{thread}")
    return record
