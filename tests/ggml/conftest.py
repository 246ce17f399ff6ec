"""The devices that the tests of devices run on: the CPU always, and the one that ``GGML_TEST_DEVICE`` names.

A device of a loadable module also needs the module's path in ``GGML_TEST_CPU_MODULE``,
``GGML_TEST_VULKAN_MODULE`` or ``GGML_TEST_CUDA_MODULE``; ``docs/devices.md`` says how to get one. GPUs
multiply float32 matrices in half precision, so results are compared to 1 % there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import DeviceType

FloatArray = npt.NDArray[np.float32]

OTHER = os.environ.get("GGML_TEST_DEVICE", "")
NAMES = tuple(dict.fromkeys(name for name in ("CPU", OTHER) if name))
MODULES = ("GGML_TEST_VULKAN_MODULE", "GGML_TEST_CUDA_MODULE", "GGML_TEST_CPU_MODULE")


@pytest.fixture(scope="session")
def find_device() -> Callable[[str], ggml.Device]:
    """A function (name) -> device, after loading what the environment names when it is not there yet."""

    def find(name: str) -> ggml.Device:
        for variable in MODULES:
            try:
                return ggml.device(name)
            except KeyError:
                if path := os.environ.get(variable):
                    ggml.load_backend(path)
        return ggml.device(name)

    return find


@pytest.fixture(params=NAMES)
def device(request: pytest.FixtureRequest, find_device: Callable[[str], ggml.Device]) -> ggml.Device:
    """Each of the devices in turn."""
    return find_device(request.param)


@pytest.fixture
def backend(device: ggml.Device) -> Iterator[ggml.Backend]:
    """A backend on ``device``."""
    with ggml.Backend(device) as made:
        yield made


@pytest.fixture(scope="session")
def relative_error() -> Callable[[FloatArray, FloatArray], float]:
    """A function (got, expected) -> the largest difference over the largest value."""

    def measure(got: FloatArray, expected: FloatArray) -> float:
        assert got.shape == expected.shape
        return float(np.abs(got - expected).max() / np.abs(expected).max())

    return measure


@pytest.fixture
def close(
    device: ggml.Device, relative_error: Callable[[FloatArray, FloatArray], float]
) -> Callable[[FloatArray, FloatArray], bool]:
    """Whether a result is what it should be, to the precision of the device."""
    return lambda got, expected: (
        relative_error(got, expected) < (1e-5 if device.type == DeviceType.CPU else 1e-2)
    )
