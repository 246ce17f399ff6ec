"""Build loadable ggml modules (``ggml.load_backend``) from libggml-python's source distribution.

Opt-in: nothing of the package needs these, and the tests that do are skipped without them. A module fits
the ggml of the installed ``libggml-python`` only when both are of one version, so the version comes from
``pyproject.toml`` unless ``--source`` names unpacked sources::

    python scripts/build_ggml_modules.py build/modules                       # the CPU module
    python scripts/build_ggml_modules.py build/modules --modules cpu vulkan  # Vulkan's too: 12 min, 3.3 GB

Needs CMake 3.18 and a C++ compiler, for Vulkan on Debian also
``apt-get install glslc libvulkan-dev spirv-headers`` (and ``mesa-vulkan-drivers`` to run on the processor,
where no GPU is at hand), for CUDA NVIDIA's toolkit. The last lines printed are the environment variables
that the tests read.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
MODULES = ("cpu", "vulkan", "cuda")
DEVICES = {"vulkan": "Vulkan0", "cuda": "CUDA0"}

# The wheel's own build leaves OpenMP out; a module that brought libgomp's threads beside ggml's own would
# be measured and tested as something else.
COMMON = (
    "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DGGML_BACKEND_DL=ON", "-DGGML_NATIVE=OFF",
    "-DGGML_OPENMP=OFF", "-DGGML_CCACHE=OFF", "-DGGML_BUILD_TESTS=OFF", "-DGGML_BUILD_EXAMPLES=OFF",
    # A module finds the libggml-base that the process has loaded already, never one beside itself.
    "-DCMAKE_SKIP_RPATH=ON",
)  # fmt: skip
X86 = ("-DGGML_AVX=ON", "-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON")

# vk::LayerSettingEXT, which only ggml's debugging of the Vulkan validation layers needs, came with the
# Vulkan headers 1.3.272; Debian 12 has 1.3.239.
LAYER_SETTINGS = re.compile(
    r"^ *VkBool32 enable_best_practice = layer_settings;\n"
    r".*?"
    r"^ *vk::InstanceCreateInfo instance_create_info\([^\n]*&layer_setting_info\);\n",
    re.DOTALL | re.MULTILINE,
)
GUARDED = """\
#if VK_HEADER_VERSION >= 272
BLOCK
#else
    (void) layer_settings;
    vk::InstanceCreateInfo instance_create_info(vk::InstanceCreateFlags{}, &app_info, layers, extensions);
#endif
"""

# A descriptor set of ggml has 12 bindings, and a dispatch writes those that its shader reads. The others keep
# what an earlier graph left there, perhaps a buffer that is gone. Vulkan allows that; lavapipe of Mesa 22.3
# nevertheless takes a reference to each of them, that is, counts in freed memory.
DISPATCH_WRITES = """\
    vk::WriteDescriptorSet write_descriptor_set{ descriptor_set, 0, 0, pipeline->parameter_count, \
vk::DescriptorType::eStorageBuffer, nullptr, descriptor_buffer_infos.begin() };
"""
DISPATCH_WRITES_ALL = """\
    std::array<vk::DescriptorBufferInfo, MAX_PARAMETER_COUNT> bindings;
    bindings.fill(*descriptor_buffer_infos.begin());
    std::copy(descriptor_buffer_infos.begin(), descriptor_buffer_infos.end(), bindings.begin());
    vk::WriteDescriptorSet write_descriptor_set{ descriptor_set, 0, 0, MAX_PARAMETER_COUNT, \
vk::DescriptorType::eStorageBuffer, nullptr, bindings.data() };
"""


def run(*command: str | Path) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True)


def pinned_version() -> str:
    """The version of libggml-python that pyproject.toml pins."""
    match = re.search(r'"libggml-python==([^"]+)"', PYPROJECT.read_text(encoding="utf-8"))
    if match is None:
        raise SystemExit(f"{PYPROJECT} pins no version of libggml-python")
    return match.group(1)


def download_sources(folder: Path) -> Path:
    """Download the source distribution with pip and unpack it below ``folder``."""
    requirement = f"libggml-python=={pinned_version()}"
    run(sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--no-binary",
        "libggml-python", "--dest", folder, requirement)  # fmt: skip
    archives = sorted(folder.glob("libggml_python-*.tar.gz"))
    if not archives:
        raise SystemExit(f"pip left no source distribution of {requirement} in {folder}")
    with tarfile.open(archives[-1]) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:  # Python before 3.10.12
            archive.extractall(folder)
    return folder / archives[-1].name.removesuffix(".tar.gz")


def copy_sources(source: Path, copy: Path) -> None:
    """Copy ggml's own folder out of the distribution ``source``, so that patches touch only the copy."""
    if not (source / "ggml" / "CMakeLists.txt").is_file():
        raise SystemExit(f"{source} is no source distribution of libggml-python: it has no ggml folder")
    if copy.exists():
        shutil.rmtree(copy)
    shutil.copytree(source / "ggml", copy)


def patch_vulkan(source: Path) -> None:
    """Let ggml-vulkan.cpp compile with Vulkan headers older than 1.3.272."""
    path = source / "src" / "ggml-vulkan" / "ggml-vulkan.cpp"
    text = path.read_text(encoding="utf-8")
    patched, count = LAYER_SETTINGS.subn(lambda match: GUARDED.replace("BLOCK\n", match.group()), text)
    if count != 1:
        raise SystemExit(f"{path}: expected one block of layer settings to guard, found {count}")
    path.write_text(patched, encoding="utf-8")


def patch_descriptors(source: Path) -> None:
    """Let each dispatch write every binding of its descriptor set, for lavapipe of Mesa 22.3."""
    path = source / "src" / "ggml-vulkan" / "ggml-vulkan.cpp"
    text = path.read_text(encoding="utf-8")
    if (count := text.count(DISPATCH_WRITES)) != 1:
        raise SystemExit(f"{path}: expected one place that writes descriptors, found {count}")
    path.write_text(text.replace(DISPATCH_WRITES, DISPATCH_WRITES_ALL), encoding="utf-8")


def options(modules: Sequence[str], llamafile: bool) -> list[str]:
    chosen = [*COMMON, f"-DGGML_LLAMAFILE={'ON' if llamafile else 'OFF'}"]
    chosen += [f"-DGGML_{name.upper()}={'ON' if name in modules else 'OFF'}" for name in MODULES]
    if platform.machine().lower() in ("x86_64", "amd64"):
        chosen += X86
    return chosen


def build(folder: Path, modules: Sequence[str], configuration: Sequence[str], jobs: int) -> list[Path]:
    """Configure and build ``modules``; returns the paths of the modules, each in a folder of its own."""
    tree = folder / "build"
    outputs = tree / "bin"  # where ggml's own CMake files put loadable modules
    run("cmake", "-S", folder / "ggml", "-B", tree, *configuration)
    built = []
    for name in modules:
        target = f"ggml-{name}"
        run("cmake", "--build", tree, "--config", "Release", "--target", target, "--parallel", str(jobs))
        found = [path for path in outputs.rglob(f"*{target}.*") if path.suffix in (".so", ".dll", ".dylib")]
        if len(found) != 1:
            raise SystemExit(f"expected one module {target} below {outputs}, found {found}")
        (folder / name).mkdir(exist_ok=True)
        built.append(folder / name / found[0].name)
        shutil.copyfile(found[0], built[-1])
    return built


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to build; modules go to its folders cpu, vulkan ...")
    parser.add_argument("--modules", nargs="+", choices=MODULES, default=["cpu"])
    parser.add_argument("--source", type=Path, help="unpacked sources, in place of a download")
    parser.add_argument("--llamafile", action="store_true", help="GGML_LLAMAFILE=ON: faster matrix products")
    parser.add_argument(
        "--old-lavapipe", action="store_true", help="a Vulkan module that Mesa 22.3's lavapipe can run"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilations at once")
    parser.add_argument("--cmake-arg", action="append", default=[], help="an option for CMake; repeatable")
    arguments = parser.parse_args()

    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    source = arguments.source.resolve() if arguments.source else download_sources(folder)
    copy_sources(source, folder / "ggml")
    if "vulkan" in arguments.modules:
        patch_vulkan(folder / "ggml")
        if arguments.old_lavapipe:
            patch_descriptors(folder / "ggml")
    configuration = [*options(arguments.modules, arguments.llamafile), *arguments.cmake_arg]
    paths = build(folder, arguments.modules, configuration, arguments.jobs)

    print("\nThe tests read:")
    for name, path in zip(arguments.modules, paths, strict=True):
        print(f"export GGML_TEST_{name.upper()}_MODULE={path}")
        if name in DEVICES:
            print(f"export GGML_TEST_DEVICE={DEVICES[name]}")
    if "vulkan" in arguments.modules:
        print("export GGML_VK_VISIBLE_DEVICES=0  # only for lavapipe, Vulkan on the processor")


if __name__ == "__main__":
    main()
