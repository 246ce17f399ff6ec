"""Every failure that a user can cause, as a subclass of :class:`AsrError`.

A message says what was wrong with what, and what to do about it. The command line prints it as
``asr: error: MESSAGE`` and goes on with the other files.
"""

from __future__ import annotations


class AsrError(Exception):
    """Base of all errors that ``asr`` raises on purpose."""


class AudioError(AsrError):
    """The audio cannot be used: not audio, empty, truncated, too short, not finite, no such channel."""


class ModelFormatError(AsrError):
    """A model file is not what it should be: foreign, truncated, a tensor missing or of the wrong shape."""


class ModelNotFoundError(AsrError):
    """No model of that name or at that path."""


class MemoryLimitError(AsrError):
    """The recording is too long for the memory there is."""


class DeviceError(AsrError):
    """No device of that name; ``asr devices`` lists them."""


class DecoderError(AsrError, ValueError):
    """The model has no such decoding head."""


class OutputError(AsrError):
    """A result cannot be written."""


class Cancelled(AsrError):
    """The work was cancelled by its ``cancel`` argument or by :meth:`asr.backend.Backend.cancel`."""


class ForkedProcessError(AsrError):
    """A model that was loaded before ``os.fork`` is used in the child, where its threads do not exist."""
