"""The table of operators: complete, true, and the files made of it up to date."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import libggml
import pytest

import ggml
from ggml import operators
from ggml.operators import OPERATORS, OPTIONAL, SETTERS, SUBJECTS, LeftOut

ROOT = Path(__file__).resolve().parents[2]
NAMES = [name for names in SUBJECTS.values() for name in names]


def header() -> str:
    text = (Path(libggml.__file__).parent / "include" / "ggml.h").read_text(encoding="utf-8")
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    script = ROOT / "scripts" / "make_operator_table.py"
    if not script.exists():
        pytest.skip("the scripts are not part of the installed package")
    spec = importlib.util.spec_from_file_location("make_operator_table", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_has_every_tensor_function_of_the_header() -> None:
    functions = set(re.findall(r"struct\s+ggml_tensor\s*\*\s*(ggml_\w+)\s*\(", header()))
    assert len(functions) > 200
    assert set(OPERATORS) == functions


def test_deprecated_functions_are_left_out() -> None:
    deprecated = re.findall(
        r"GGML_DEPRECATED\(\s*GGML_API\s+struct\s+ggml_tensor\s*\*\s*(ggml_\w+)", header()
    )
    assert len(deprecated) == 5
    for name in deprecated:
        value = OPERATORS[name]
        assert isinstance(value, LeftOut)
        assert "deprecated" in value.reason


@pytest.mark.parametrize("name", [*NAMES, *SETTERS])
def test_every_operator_is_there_and_documented(name: str) -> None:
    function = getattr(ggml, name)
    assert callable(function)
    assert name in ggml.__all__
    assert f"ggml_{name}: " in function.__doc__
    assert f"ggml_{name}" in OPERATORS or name in SETTERS


def test_no_operator_is_missing_from_the_table() -> None:
    documented = {
        name for name in dir(ggml._core) if f"ggml_{name}: " in str(getattr(ggml._core, name).__doc__)
    }
    assert documented == {*NAMES, *SETTERS}


def test_left_out_functions_name_their_replacement() -> None:
    for value in OPERATORS.values():
        if isinstance(value, LeftOut):
            assert len(value.reason) >= len("Tensor.name")
            for name in re.findall(r"use (\w+)$", value.reason):
                assert name in NAMES


def test_document_and_stub_are_up_to_date(maker: ModuleType) -> None:
    again = "run scripts/make_operator_table.py"
    assert (ROOT / maker.DOC).read_text(encoding="utf-8") == maker.document(), again
    assert (ROOT / maker.STUB).read_text(encoding="utf-8") == maker.stub(), again


@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_optional_tensors_may_be_none(name: str) -> None:
    ctx = ggml.Context(1 << 16)
    x = ctx.new_tensor(ggml.Type.F32, [8, 2, 3])
    positions = ctx.new_tensor(ggml.Type.I32, [12 if "multi" in name else 3])
    arguments = {
        "soft_max_ext": (x, None, 1.0),
        "flash_attn_ext": (x, x, x, None, 1.0),
        "rope_ext": (x, positions, None, 8, 0),
        "rope_multi": (x, positions, None, 8, [2, 2, 0, 0], ggml.RopeMode.MROPE),
    }[name.removesuffix("_inplace")]
    assert getattr(ggml, name)(ctx, *arguments).ne


def test_enums_have_ggmls_values() -> None:
    text = header()
    enums = {
        "ggml_unary_op": ("GGML_UNARY_OP_", ggml.UnaryOp),
        "ggml_glu_op": ("GGML_GLU_OP_", ggml.GluOp),
        "ggml_op_pool": ("GGML_OP_POOL_", ggml.Pool),
        "ggml_sort_order": ("GGML_SORT_ORDER_", ggml.SortOrder),
        "ggml_tri_type": ("GGML_TRI_TYPE_", ggml.TriType),
        "ggml_scale_mode": ("GGML_SCALE_MODE_", ggml.ScaleMode),
    }
    for c_name, (prefix, enum) in enums.items():
        body = re.search(rf"enum {c_name} \{{(.*?)\}}", text, re.DOTALL)
        assert body is not None
        names = [n for n in re.findall(rf"{prefix}(\w+)", body[1]) if n != "COUNT"]
        assert [(n, i) for i, n in enumerate(names)] == [(e.name, e.value) for e in enum]
    for mode in ggml.RopeMode:
        assert re.search(rf"#define GGML_ROPE_TYPE_{mode.name} +{mode.value}\b", text)


def test_subjects_are_disjoint() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert len(OPERATORS) == len(NAMES) + len(operators._LEFT_OUT)
