"""ggml's graph operators, all of them also in :mod:`ggml` itself.

Each takes the context of the graph first, then tensors and numbers as in C. Types, sizes, layouts and numbers
are checked before ggml sees them: what it could not compute raises :class:`ggml.GgmlError` (tensors),
``ValueError`` or ``TypeError`` (numbers), with what was given. ``docs/ggml-operators.md`` lists them.
"""

from __future__ import annotations

from ggml import _core
from ggml.operators import SETTERS, SUBJECTS

__all__ = [*(name for names in SUBJECTS.values() for name in names), *SETTERS]

globals().update({name: getattr(_core, name) for name in __all__})
