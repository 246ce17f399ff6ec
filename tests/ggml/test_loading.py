"""Loading ggml modules from files, and unloading them. Every test has a process of its own.

The tests that need a module are skipped without ``GGML_TEST_CPU_MODULE``, the path that
``scripts/build_ggml_modules.py`` prints.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

MODULE = os.environ.get("GGML_TEST_CPU_MODULE", "")
needs_module = pytest.mark.skipif(
    not MODULE, reason="GGML_TEST_CPU_MODULE is not set: scripts/build_ggml_modules.py builds a module"
)

# What the programs below begin with.
PRELUDE = '''
import gc
import sys
from pathlib import Path

import numpy as np

import ggml

MODULE = sys.argv[1]


def graph_of(ctx, result):
    graph = ggml.Graph(ctx, 16)
    graph.expand(result)
    return graph


def product(device):
    """A matrix product on `device`: [8, 5] in NumPy's order."""
    with ggml.Backend(device) as backend, ggml.Context(1 << 20) as ctx:
        random = np.random.default_rng(0)
        w, x = ctx.new_tensor(ggml.Type.F32, [16, 5]), ctx.new_tensor(ggml.Type.F32, [16, 8])
        graph = graph_of(ctx, y := ggml.mul_mat(ctx, w, x))
        with ggml.alloc_ctx_tensors(ctx, backend):
            w_value = random.standard_normal((5, 16)).astype(np.float32)
            x_value = random.standard_normal((8, 16)).astype(np.float32)
            w.set(w_value)
            x.set(x_value)
            backend.compute(graph)
            assert np.abs(y.get() - x_value @ w_value.T).max() < 1e-5
    return True


def refused(call, *errors):
    """The message of the error that `call` raises, one of `errors` (by default GgmlError)."""
    try:
        call()
    except errors or ggml.GgmlError as error:
        return str(error)
    raise AssertionError("it was not refused")


def names():
    return [device.name for device in ggml.devices()]


BEFORE = names()  # the wheel for macOS has more devices built in than the CPU
'''


def run_program(folder: Path, program: str, *arguments: str | Path) -> None:
    """Run Python code in a fresh process with the current directory ``folder``; it has to end well."""
    environment = {key: value for key, value in os.environ.items() if key != "GGML_BACKEND_PATH"}
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent(program), MODULE, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, f"exit status {run.returncode}\n{run.stdout}\n{run.stderr}"


# Loading


@needs_module
def test_a_loaded_module_is_a_second_device_that_computes(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        built_in = ggml.device("CPU")
        n_registries = len(ggml.registries())
        registry = ggml.load_backend(MODULE)
        assert registry.name == "CPU" and registry.is_registered
        assert names() == [*BEFORE, "CPU"] and len(ggml.registries()) == n_registries + 1
        loaded, = registry.devices
        assert loaded in ggml.devices() and loaded != built_in
        assert loaded.type == ggml.DeviceType.CPU
        assert ggml.device("CPU") == built_in  # the first of a name
        assert product(loaded) and product(built_in)
        """,
    )


@needs_module
def test_the_same_path_twice_is_the_same_registry(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        first, second = ggml.load_backend(MODULE), ggml.load_backend(Path(MODULE))
        assert first.devices == second.devices
        assert names() == [*BEFORE, "CPU"]
        """,
    )


@needs_module
def test_a_relative_path(tmp_path: Path) -> None:
    shutil.copy(MODULE, tmp_path / "module.so")
    run_program(
        tmp_path,
        """
        assert product(ggml.load_backend("./module.so").devices[0])
        """,
    )


@needs_module
def test_load_all_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    shutil.copy(MODULE, folder)
    run_program(
        tmp_path,
        """
        folder = sys.argv[2]
        registry, = ggml.load_all_backends(folder)
        assert registry.name == "CPU" and product(registry.devices[0])
        assert ggml.load_all_backends(folder) == ()  # nothing new
        assert names() == [*BEFORE, "CPU"]
        """,
        folder,
    )


@needs_module
def test_load_all_takes_one_of_several_for_a_kind_of_device(tmp_path: Path) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    for variant in ("one", "other"):
        shutil.copy(MODULE, folder / f"libggml-cpu-{variant}.so")
    (folder / "libggml-cpu-broken.so").write_text("not a library\n", "utf-8")
    run_program(
        tmp_path,
        """
        registry, = ggml.load_all_backends(sys.argv[2])
        assert registry.name == "CPU" and product(registry.devices[0])
        assert names() == [*BEFORE, "CPU"]
        """,
        folder,
    )


def test_load_all_of_a_folder_without_modules(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        assert ggml.load_all_backends(Path.cwd()) == ()
        assert names() == BEFORE and product("CPU")
        """,
    )


@needs_module
def test_nothing_is_loaded_from_the_current_directory(tmp_path: Path) -> None:
    shutil.copy(MODULE, tmp_path)
    (tmp_path / "empty").mkdir()
    run_program(
        tmp_path,
        """
        assert Path(Path(MODULE).name).exists()
        refused(lambda: ggml.load_all_backends(), TypeError)
        assert ggml.load_all_backends("empty") == ()
        for nowhere in ("", "missing", MODULE):
            refused(lambda: ggml.load_all_backends(nowhere), ggml.GgmlError, ValueError, OSError)
        assert names() == BEFORE
        """,
    )


# What cannot be loaded


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        assert "missing.so" in refused(lambda: ggml.load_backend("missing.so"))
        assert names() == BEFORE and product("CPU")
        """,
    )


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a library\n", "utf-8")
    run_program(
        tmp_path,
        """
        for path in ("text.so", "."):
            refused(lambda: ggml.load_backend(path))
        assert "text.so" in refused(lambda: ggml.load_backend(Path.cwd() / "text.so"))
        assert names() == BEFORE and product("CPU")
        """,
    )


def test_a_path_with_a_zero_byte(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        for load in (ggml.load_backend, ggml.load_all_backends):
            refused(lambda: load("missing\\0"), ggml.GgmlError, ValueError)
        assert product("CPU")
        """,
    )


def test_a_library_that_is_no_module(tmp_path: Path) -> None:
    """The wheel's own CPU library is linked, not loaded: it lacks what a module exports."""
    import libggml

    folder = Path(libggml.__file__).parent
    libraries = [*folder.rglob("libggml-cpu.so*"), *folder.rglob("libggml-cpu*.dylib")]
    if not libraries:
        pytest.skip("this libggml-python has no CPU library of its own")
    run_program(
        tmp_path,
        """
        message = refused(lambda: ggml.load_backend(sys.argv[2]))
        assert sys.argv[2] in message and "ggml_backend_init" in message, message
        assert names() == BEFORE and product("CPU")
        """,
        libraries[0],
    )


# Unloading


@needs_module
@pytest.mark.parametrize(
    "make",
    [
        "ggml.Backend(device)",
        "device.buffer_type.alloc_buffer(64)",
        "ggml.alloc_ctx_tensors(ctx, device.buffer_type)",
        "ggml.Gallocr(device.buffer_type)",
        "ggml.Sched([ggml.Backend(device)])",
        "ggml.MultiBuffer([device.buffer_type.alloc_buffer(64)])",
    ],
)
def test_a_registry_in_use_stays(tmp_path: Path, make: str) -> None:
    run_program(
        tmp_path,
        f"""
        registry = ggml.load_backend(MODULE)
        device, = registry.devices
        ctx = ggml.Context(1 << 16)
        tensor = ctx.new_tensor(ggml.Type.F32, [4])
        user = {make}
        assert "in use" in refused(registry.unload)
        assert registry.is_registered and product(device)
        backends = getattr(user, "backends", ())
        user.close()
        for backend in backends:
            backend.close()
        gc.collect()
        registry.unload()
        assert not registry.is_registered and names() == BEFORE and product("CPU")
        """,
    )


@needs_module
def test_a_tensor_alone_keeps_its_registry(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        registry = ggml.load_backend(MODULE)
        tensor = ggml.Context(1 << 16).new_tensor(ggml.Type.F32, [4])
        ctx = ggml.Context(1 << 16)
        tensor = ctx.new_tensor(ggml.Type.F32, [4])
        ggml.alloc_ctx_tensors(ctx, registry.devices[0].buffer_type)
        del ctx
        gc.collect()
        tensor.set(np.arange(4, dtype=np.float32))
        refused(registry.unload)
        assert list(tensor.get()) == [0, 1, 2, 3]
        del tensor
        gc.collect()
        registry.unload()
        """,
    )


@needs_module
def test_what_an_unloaded_module_leaves_behind_raises(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        registry = ggml.load_backend(MODULE)
        device, = registry.devices
        buffer_type = device.buffer_type
        tensor = ggml.Context(1 << 16).new_tensor(ggml.Type.F32, [4])
        registry.unload()
        uses = [
            lambda: device.name, lambda: device.description, lambda: device.type, lambda: device.props,
            lambda: device.memory_free, lambda: device.init(), lambda: device.event(),
            lambda: device.supports_op(tensor), lambda: device.offload_op(tensor),
            lambda: device.buffer_type, lambda: ggml.Backend(device),
            lambda: ggml.register_device(device), lambda: ggml.register(registry),
            lambda: registry.devices, lambda: registry.unload(),
            lambda: buffer_type.alloc_buffer(64), lambda: buffer_type.name,
            lambda: ggml.meta_device([device], lambda info, n: ggml.SplitAxis.MIRRORED),
        ]
        for number, use in enumerate(uses):
            try:
                refused(use)
            except AssertionError:
                raise AssertionError(f"use {number} was not refused")
        assert repr(device) and repr(registry) and not registry.is_registered
        assert product("CPU")
        """,
    )


@needs_module
def test_load_compute_and_unload_again_and_again(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        for _ in range(5):
            registry = ggml.load_backend(MODULE)
            assert product(registry.devices[0])
            registry.unload()
            assert names() == BEFORE
        """,
    )


def test_the_built_in_registry_comes_back(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        registry = ggml.registry("cpu")
        with ggml.Backend("CPU"):
            refused(registry.unload)
        registry.unload()
        assert not registry.is_registered
        assert "CPU" not in names()
        refused(lambda: ggml.registry("CPU"), KeyError)
        refused(lambda: ggml.device("CPU"), KeyError)
        refused(lambda: ggml.device(ggml.DeviceType.CPU), KeyError)
        refused(lambda: ggml.Backend("CPU"), KeyError, ggml.GgmlError)
        if not ggml.devices():
            refused(ggml.best_backend, KeyError)
        ggml.register(registry)
        ggml.register(registry)  # already there
        assert registry.is_registered and sorted(names()) == sorted(BEFORE) and product("CPU")
        """,
    )


def test_a_device_is_registered_once(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        ggml.register_device(ggml.device("CPU"))
        assert names() == BEFORE
        registry = ggml.registry("CPU")
        device, = registry.devices
        registry.unload()
        ggml.register_device(device)
        assert sorted(names()) == sorted(BEFORE) and not registry.is_registered and product("CPU")
        for wrong in (None, "CPU"):
            refused(lambda: ggml.register_device(wrong), TypeError)
            refused(lambda: ggml.register(wrong), TypeError)
        """,
    )
