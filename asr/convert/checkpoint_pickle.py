"""A pickle interpreter for PyTorch state dicts that can build tensors and plain containers, nothing else.

Python's own unpickler calls whatever a file names. This one walks the opcodes that ``torch.save`` writes for
a state dict and knows five things to do at a ``GLOBAL``: rebuild a tensor, rebuild a parameter, an
``OrderedDict``, and refer to a storage by its type. Everything else is refused by name. Keys of dicts are
strings or integers, so nothing deep is ever hashed or compared, and no file can exhaust the C stack.
"""

from __future__ import annotations

import pickletools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from asr.errors import ModelFormatError


@dataclass(frozen=True, slots=True)
class Storage:
    """A run of ``count`` values of type ``dtype`` (torch's name, such as ``bfloat16``), by its key."""

    key: str
    dtype: str
    count: int


@dataclass(frozen=True, slots=True)
class TensorView:
    """A strided view into a storage; ``offset`` and ``strides`` count values, as in PyTorch."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _StorageType:
    dtype: str


@dataclass(frozen=True, slots=True)
class _Function:
    call: Callable[..., Any]


_STORAGES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}


def load_state_dict(data: bytes, label: str) -> dict[str, TensorView]:
    """The tensors of a pickled state dict, by name, in the file's order; nothing is read but ``data``.

    :param label: names the file in messages.
    :raises ModelFormatError: the pickle is damaged, names something that a state dict does not hold, or is
        no dict of tensors.
    """
    try:
        root = _interpret(data)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise ModelFormatError(
            f"{label}: the weights' index is damaged: {error or type(error).__name__}"
        ) from error
    except _RefusedError as error:
        raise ModelFormatError(
            f"{label}: the weights' index asks for {error}, which a state dict of tensors never needs; "
            "refused, because loading it could run code"
        ) from error
    if not isinstance(root, dict):
        raise ModelFormatError(f"{label}: a {type(root).__name__} in place of a dict of tensors")
    # torch.save may leave other plain values beside the tensors; they carry no weights.
    return {str(name): value for name, value in root.items() if isinstance(value, TensorView)}


class _RefusedError(Exception):
    """The pickle wants something that is not allowed; the message names it."""


def _interpret(data: bytes) -> Any:
    """Runs the opcodes and returns the object at ``STOP``.

    Raises :class:`_RefusedError`, or the plain exceptions of a stack machine on damaged input.
    """
    stack: list[Any] = []
    marks: list[list[Any]] = []
    memo: dict[int, Any] = {}
    for opcode, argument, _ in pickletools.genops(data):
        match opcode.name:
            case "PROTO" | "FRAME":
                pass
            case "STOP":
                return stack.pop()
            case "MARK":
                marks.append(stack)
                stack = []
            case "NONE":
                stack.append(None)
            case "NEWTRUE":
                stack.append(True)
            case "NEWFALSE":
                stack.append(False)
            case (
                "BININT" | "BININT1" | "BININT2" | "LONG1" | "LONG4" | "BINFLOAT"
                | "BINUNICODE" | "SHORT_BINUNICODE" | "BINUNICODE8"
            ):  # fmt: skip
                stack.append(argument)
            case "EMPTY_TUPLE":
                stack.append(())
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(opcode.name[-1])
                items = tuple(_pop(stack) for _ in range(count))
                stack.append(items[::-1])
            case "TUPLE" | "LIST" | "DICT":
                items, stack = tuple(stack), marks.pop()
                stack.append(_contained(opcode.name, items))
            case "APPEND":
                value = _pop(stack)
                _typed(stack[-1], list).append(value)
            case "APPENDS":
                items, stack = tuple(stack), marks.pop()
                _typed(stack[-1], list).extend(items)
            case "SETITEM":
                value, key = _pop(stack), _pop(stack)
                _put(stack[-1], (key, value))
            case "SETITEMS":
                items, stack = tuple(stack), marks.pop()
                _put(stack[-1], items)
            case "BINPUT" | "LONG_BINPUT":
                memo[_integer(argument)] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[_integer(argument)])
            case "GLOBAL":
                module, _, name = str(argument).partition(" ")
                stack.append(_find(module, name))
            case "STACK_GLOBAL":
                name, module = _pop(stack), _pop(stack)
                stack.append(_find(str(module), str(name)))
            case "BINPERSID":
                stack.append(_storage(_pop(stack)))
            case "REDUCE":
                arguments, function = _pop(stack), _pop(stack)
                stack.append(_typed(function, _Function).call(*_typed(arguments, tuple)))
            case "BUILD":
                # An OrderedDict's attributes: the modules' version numbers.
                _pop(stack)
                _typed(stack[-1], OrderedDict)
            case _:
                raise _RefusedError(f"the pickle operation {opcode.name}")
    raise ValueError("it has no end")


def _pop(stack: list[Any]) -> Any:
    return stack.pop()


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} where a {kind.__name__.lstrip('_')} should be")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a {type(value).__name__} where an integer should be")
    return value


def _put(target: Any, items: tuple[Any, ...]) -> None:
    mapping = _typed(target, dict)
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, (str, int)):
            raise TypeError(f"a {type(key).__name__} as a key")
        mapping[key] = value


def _contained(opcode: str, items: tuple[Any, ...]) -> Any:
    if opcode == "TUPLE":
        return items
    if opcode == "LIST":
        return list(items)
    mapping: dict[Any, Any] = {}
    _put(mapping, items)
    return mapping


def _find(module: str, name: str) -> Any:
    if module == "torch" and name in _STORAGES:
        return _StorageType(_STORAGES[name])
    if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
        return _Function(_tensor)
    if (module, name) == ("torch._utils", "_rebuild_parameter"):
        return _Function(_parameter)
    if (module, name) == ("collections", "OrderedDict"):
        return _Function(_ordered_dict)
    raise _RefusedError(f"{module}.{name}")


def _ordered_dict(*arguments: Any) -> OrderedDict[Any, Any]:
    if arguments:
        # Protocol 2 builds it empty and sets the items afterwards.
        raise TypeError("an OrderedDict built from arguments")
    return OrderedDict()


def _storage(reference: Any) -> Storage:
    """``("storage", type, key, device, count)``, as torch's zip format refers to a storage."""
    if not isinstance(reference, tuple) or len(reference) != 5 or reference[0] != "storage":
        raise _RefusedError("a persistent object that is no storage")
    _, kind, key, _, count = reference
    if not isinstance(kind, _StorageType) or not isinstance(key, str) or _integer(count) < 0:
        raise TypeError("a malformed storage reference")
    return Storage(key, kind.dtype, count)


def _tensor(
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    _gradient: Any = None,
    _hooks: Any = None,
    _extra: Any = None,
) -> TensorView:
    """A view whose every value lies inside its storage."""
    held: Storage = _typed(storage, Storage)
    view = TensorView(
        held,
        _integer(offset),
        tuple(_integer(n) for n in _typed(shape, tuple)),
        tuple(_integer(n) for n in _typed(strides, tuple)),
    )
    if len(view.shape) != len(view.strides) or len(view.shape) > 8:
        raise ValueError(f"a tensor of shape {view.shape} with strides {view.strides}")
    if view.offset < 0 or min((*view.shape, *view.strides), default=0) < 0:
        raise ValueError(f"a tensor of shape {view.shape} with strides {view.strides} at {view.offset}")
    count = 1
    for n in view.shape:
        count *= n
    last = view.offset + sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
    # A view with repeated values (stride 0) could be as large as it likes: a state dict has none.
    if count > 0 and (last >= held.count or count > held.count):
        raise ValueError(
            f"a tensor of shape {view.shape} that is larger than its storage of {held.count} values"
        )
    return view


def _parameter(data: Any, _gradient: Any = None, _hooks: Any = None) -> TensorView:
    view: TensorView = _typed(data, TensorView)
    return view
