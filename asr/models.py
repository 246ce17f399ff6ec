"""From a model's name or path to a GGUF file on disk."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from asr.audio import display_name
from asr.errors import ModelNotFoundError

DEFAULT_MODEL = "tiny-commands-en"
_DEFAULT_PURPOSE = "spoken English letters, digits, dates, numbers and short commands"

# Raise it when converted files change, so that what older versions left in the cache is not used.
_CONVERSION = 1


def default_notice() -> str:
    """What to tell somebody who did not choose a model."""
    return (
        f"using the bundled model {DEFAULT_MODEL}, which is for {_DEFAULT_PURPOSE} only; "
        "for general speech give a Parakeet model, .gguf or .nemo: asr transcribe -m MODEL FILE"
    )


def bundled_models() -> dict[str, Path]:
    """The models that came with the package, by name."""
    import asr

    return {
        path.stem: path for folder in asr.__path__ for path in sorted(Path(folder, "bundled").glob("*.gguf"))
    }


def find_model(name_or_path: str | os.PathLike[str] | None = None) -> Path:
    """The GGUF file of a model: None is the default, a bundled model's name, or a path.

    A NeMo checkpoint (``.nemo``) is converted into the cache first, once for each state of the file. Raises
    :class:`asr.ModelNotFoundError`, and what :func:`asr.convert.convert_nemo` raises.
    """
    bundled = bundled_models()
    if name_or_path is None:
        name_or_path = DEFAULT_MODEL
    if isinstance(name_or_path, str) and name_or_path in bundled:
        return bundled[name_or_path]
    path = Path(name_or_path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        names = ", ".join(bundled) or "none"
        raise ModelNotFoundError(
            f"there is no model {display_name(path)!r}: give the path of a .gguf or .nemo file, "
            f"or the name of a bundled model ({names})"
        ) from None
    except (OSError, ValueError) as error:  # too long, a loop, no permission; a null character
        reason = getattr(error, "strerror", None) or error
        raise ModelNotFoundError(f"cannot look at the model {display_name(path)}: {reason}") from None
    if stat.S_ISDIR(mode):
        raise ModelNotFoundError(f"{display_name(path)} is a folder, not a model file")
    return _converted(path) if path.suffix.lower() == ".nemo" else path


def cache_folder() -> Path:
    """Where converted models are kept: ``ASR_CACHE_DIR``, or the user's cache folder."""
    chosen = os.environ.get("ASR_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("asr", appauthor=False))


def _converted(path: Path) -> Path:
    from asr.convert import convert_nemo
    from asr.output import make_folder

    status = path.stat()
    state = f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0{_CONVERSION}"
    key = hashlib.sha256(state.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    # A file system's limit of 255 bytes counts the key, and the suffix of the file that is written first.
    stem = path.stem.encode("utf-8", "surrogateescape")[:180].decode("utf-8", "ignore")
    target = cache_folder() / "converted" / f"{stem}-{key}.gguf"
    if not target.exists():
        make_folder(target.parent)
        convert_nemo(path, target)
    return target
