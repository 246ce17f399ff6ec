"""Errors of the ggml package."""

from __future__ import annotations


class GgmlError(Exception):
    """ggml refused a call, or would have aborted on it; the message says which check failed."""


class UnsupportedProcessorError(GgmlError, ImportError):
    """The processor lacks instructions that the prebuilt ggml libraries use."""


class UnsupportedError(GgmlError):
    """The device or backend does not have what was asked for, such as events or graph plans."""


class OutOfMemoryError(GgmlError, MemoryError):
    """A device, or this process, has not as much memory as was asked for."""


class Cancelled(GgmlError):
    """The computation was cancelled by its ``cancel`` argument."""
