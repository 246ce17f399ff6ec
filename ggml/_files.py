"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """The name of a new file beside ``path`` to write to; it takes ``path``'s place at the end.

    A symbolic link is followed, an existing file is replaced and its permissions are kept. After any failure
    from inside, Ctrl-C included, the new file is removed and ``path`` is as it was. Raises ``OSError``.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    # Its name does not grow with the target's, which may be as long as the file system allows.
    temporary = os.path.join(os.path.dirname(target), f".{secrets.token_hex(8)}.part")
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield temporary
        _sync(temporary)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(temporary, target)
    finally:
        # Gone already when it was renamed.
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    if hasattr(os, "O_DIRECTORY"):  # makes the renaming last through a loss of power
        with contextlib.suppress(OSError):
            _sync(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: str, flags: int = os.O_RDWR) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
