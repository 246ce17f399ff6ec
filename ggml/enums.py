"""ggml's enumerations, with ggml's values."""

from __future__ import annotations

from enum import Enum, IntEnum


class Named(IntEnum):
    """An integer of ggml's that prints as its name."""

    __str__ = Enum.__str__
    __format__ = Enum.__format__


class DeviceType(Named):
    """``ggml_backend_dev_type``."""

    CPU = 0
    GPU = 1  # with memory of its own
    IGPU = 2  # shares the host's memory
    ACCEL = 3  # works together with the CPU, such as BLAS
    META = 4  # made of several devices


class BufferUsage(Named):
    """``ggml_backend_buffer_usage``: what a buffer is for, a hint to the scheduler."""

    ANY = 0
    WEIGHTS = 1
    COMPUTE = 2


class SplitAxis(Named):
    """``ggml_backend_meta_split_axis``: how a tensor lies on the devices of a meta device."""

    AXIS_0 = 0
    AXIS_1 = 1
    AXIS_2 = 2
    AXIS_3 = 3
    MIRRORED = 10  # whole on every device
