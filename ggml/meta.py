"""The meta device: tensor parallelism, one device made of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ggml._core as core
from ggml.devices import Device
from ggml.enums import SplitAxis
from ggml.types import Type


@dataclass(frozen=True, slots=True)
class SplitInfo:
    """A tensor that is about to be given memory on a meta device. ``ne`` is ggml's order of sizes."""

    name: str
    type: Type
    ne: tuple[int, int, int, int]
    op: str
    flags: int

    @property
    def shape(self) -> tuple[int, ...]:
        """NumPy's order of sizes, without leading dimensions of 1."""
        sizes = list(self.ne)
        while len(sizes) > 1 and sizes[-1] == 1:
            sizes.pop()
        return tuple(reversed(sizes))


@dataclass(frozen=True, slots=True)
class Split:
    """How a tensor is split: along ``axis``, each device getting a slice.

    ``sizes`` has one entry for each segment and device, devices innermost; a tensor made of several parts
    that are each to be split (a fused QKV matrix) has several segments. ``repeats`` says how often each
    segment occurs (1 when left out). Sizes times repeats add up to the axis.
    """

    axis: int
    sizes: Sequence[int] = ()
    repeats: Sequence[int] = ()


SplitFunction = Callable[[SplitInfo, int], "Split | SplitAxis"]


def meta_device(devices: Sequence[Device], split_fn: SplitFunction) -> Device:
    """One device made of 1 to 16 (``ggml_backend_meta_device``).

    ``split_fn(info, n_devices)`` is asked how each tensor that ``alloc_ctx_tensors`` gives memory, such as a
    weight, lies on the devices: a :class:`Split`, or ``SplitAxis.MIRRORED``. A graph's inputs and results are
    not asked about: a ``Gallocr`` mirrors the former, and the parts of the latter follow from their operands.
    It is called when memory is allocated and again when a graph is computed, and must answer the same. When
    it raises, or its answer does not fit the tensor (``ValueError``), the call that asked raises that, and
    nothing stays allocated.

    ggml keeps meta devices for as long as the process runs.
    """

    def answer(info: dict[str, Any], n_devices: int) -> tuple[int, list[int], list[int]]:
        tensor = SplitInfo(info["name"], Type(info["type"]), info["ne"], info["op"], info["flags"])
        split = split_fn(tensor, n_devices)
        if isinstance(split, SplitAxis):
            split = Split(split)
        if not isinstance(split, Split):
            raise TypeError(f"a split function returns a Split or SplitAxis.MIRRORED, not {split!r}")
        return int(split.axis), [int(n) for n in split.sizes], [int(n) for n in split.repeats]

    return core.meta_device(list(devices), answer)
