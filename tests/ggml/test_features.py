"""CPU features: every function of the header, with plausible answers."""

from __future__ import annotations

import platform
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import ggml


def header() -> str:
    spec = find_spec("libggml")
    for location in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(location) / "include/ggml-cpu.h"
        if path.is_file():
            return path.read_text()
    pytest.skip("libggml's headers are not installed")


def test_every_feature_of_the_header() -> None:
    features = ggml.cpu_features()
    assert list(features) == re.findall(r"\bggml_cpu_has_(\w+)\s*\(", header())
    assert {type(v) for v in features.values()} == {bool}


def test_every_vector_length_of_the_header() -> None:
    lengths = ggml.cpu_vector_bytes()
    found = re.findall(r"\bggml_cpu_get_(\w+)\s*\(void\);\s*//.*vector length", header())
    assert list(lengths) == found
    assert all(n >= 0 for n in lengths.values())


def test_they_fit_the_processor() -> None:
    features = ggml.cpu_features()
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i686")
    if not x86:
        assert not features["avx"]
        assert not features["sse3"]
    else:
        assert not features["neon"]
        assert ggml.cpu_vector_bytes() == {"sve_cnt": 0, "rvv_vlen": 0}
    assert features["avx"] or not features["avx2"]
