"""PyTorch's file format: views, types, and pickles that are not what they should be."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest

from asr.convert.checkpoint_pickle import load_state_dict
from asr.convert.torch_checkpoint import open_checkpoint
from asr.errors import ModelFormatError
from asr.sentencepiece import parse_sentencepiece


def test_strides_and_offsets_are_honoured(torch_format: Any) -> None:
    base = np.arange(40, dtype=np.float32)
    index = torch_format.dictionary(
        {
            "transposed": torch_format.tensor("FloatStorage", "7", 40, 0, (5, 8), (1, 5)),
            "slice": torch_format.tensor("FloatStorage", "7", 40, 10, (3, 2), (10, 2)),
            "scalar": torch_format.tensor("FloatStorage", "7", 40, 39, (), ()),
            "empty": torch_format.tensor("FloatStorage", "7", 40, 0, (0, 3), (3, 1)),
        }
    )
    checkpoint = open_checkpoint(io.BytesIO(torch_format.zip(index, {"7": base.tobytes()})), "w")
    np.testing.assert_array_equal(checkpoint.read("transposed"), base.reshape(8, 5).T)
    np.testing.assert_array_equal(checkpoint.read("slice"), [[10, 12], [20, 22], [30, 32]])
    assert checkpoint.read("scalar").shape == ()
    assert checkpoint.read("scalar") == 39
    assert checkpoint.read("empty").shape == (0, 3)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_every_type_is_read_as_float32(torch_format: Any, dtype: str) -> None:
    values = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    checkpoint = open_checkpoint(io.BytesIO(torch_format.checkpoint({"t": values})), "w")
    found = checkpoint.read("t")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, values.astype(np.float32))


def test_bfloat16_and_big_endian(torch_format: Any) -> None:
    exact = np.array([1.0, -2.5, 3e38, 0.0078125], np.float32)
    upper = (exact.view(np.uint32) >> 16).astype("<u2")
    rounded = (upper.astype(np.uint32) << 16).view(np.float32)
    index = torch_format.dictionary({"t": torch_format.tensor("BFloat16Storage", "0", 4, 0, (4,), (1,))})
    checkpoint = open_checkpoint(io.BytesIO(torch_format.zip(index, {"0": upper.tobytes()})), "w")
    np.testing.assert_array_equal(checkpoint.read("t"), rounded)

    index = torch_format.dictionary({"t": torch_format.tensor("FloatStorage", "0", 4, 0, (4,), (1,))})
    file = torch_format.zip(index, {"0": exact.astype(">f4").tobytes()}, byteorder=b"big")
    np.testing.assert_array_equal(open_checkpoint(io.BytesIO(file), "w").read("t"), exact)


class _Run:
    """Pickles into a call of os.system."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        import os

        return os.system, ("touch /tmp/must-not-exist",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_call_of_something_else_is_refused_by_its_name(protocol: int) -> None:
    name = r"(posix|nt)\.system"
    with pytest.raises(ModelFormatError, match=name):
        load_state_dict(pickle.dumps({"w": _Run()}, protocol), "w")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.", r"builtins\.eval"),
        (b"\x80\x02ctorch\nload\n)R.", r"torch\.load"),
        (b"\x80\x02ctorch.jit._pickle\nbuild_intlist\n)R.", r"build_intlist"),
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)\x81.", "NEWOBJ"),
        (b"\x80\x02(i__builtin__\neval\n.", "INST"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x02X\x01\x00\x00\x00kQ.", "persistent object"),
        (b"\x80\x02ccollections\nOrderedDict\n]]a\x85R.", "OrderedDict"),
        (b"\x80\x02}(]K\x01u.", "as a key"),
        (b"\x80\x02}X\x01\x00\x00\x00k]b.", "damaged"),
        (b"\x80\x02]K\x01b.", "damaged"),
        (b"\x80\x02K\x01.", "int in place of a dict"),
        (b"\x80\x02}", "damaged"),
        (b"\x80\x02.", "damaged"),
        (b"\x80\x02h\x05.", "damaged"),
        (b"\x80\x02t.", "damaged"),
        (b"\x80\x02X\xff\xff\xff\x7fk.", "damaged"),
        (b"", "damaged"),
        (b"hello", "damaged"),
    ],
)
def test_other_pickles_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(ModelFormatError, match=says):
        load_state_dict(data, "w")


def test_deep_nesting_does_no_harm() -> None:
    with pytest.raises(ModelFormatError, match="tuple in place of a dict"):
        load_state_dict(b"\x80\x02)" + b"\x85" * 200_000 + b".", "w")
    with pytest.raises(ModelFormatError, match="as a key"):
        load_state_dict(b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.", "w")


@pytest.mark.parametrize(
    ("count", "offset", "shape", "strides"),
    [
        (8, 0, (9,), (1,)),
        (8, 1, (8,), (1,)),
        (8, 0, (3, 3), (3, 1)),
        (8, 0, (2,), (8,)),
        (8, 0, (1 << 40,), (0,)),
        (8, 0, (1 << 40, 1 << 40), (0, 0)),
        (8, -1, (4,), (1,)),
        (8, 0, (-4,), (1,)),
        (8, 7, (4,), (-1,)),
        (8, 0, (4,), (1, 1)),
        (8, 0, (1,) * 40, (1,) * 40),
        (-8, 0, (0,), (1,)),
        (1 << 62, 0, (1 << 62,), (1,)),
        (9, 0, (9,), (1,)),
    ],
)
def test_tensors_that_reach_past_their_bytes(
    torch_format: Any, count: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    index = torch_format.dictionary(
        {"t": torch_format.tensor("FloatStorage", "0", count, offset, shape, strides)}
    )
    file = io.BytesIO(torch_format.zip(index, {"0": bytes(32)}))
    with pytest.raises(ModelFormatError):
        open_checkpoint(file, "w")


def test_a_storage_that_is_not_there(torch_format: Any) -> None:
    index = torch_format.dictionary({"t": torch_format.tensor("FloatStorage", "../../x", 8, 0, (8,), (1,))})
    with pytest.raises(ModelFormatError, match="values of t are missing"):
        open_checkpoint(io.BytesIO(torch_format.zip(index, {"0": bytes(32)})), "w")


def test_files_that_are_no_checkpoint(torch_format: Any) -> None:
    whole = torch_format.checkpoint({"t": np.zeros(300, np.float32)})
    with pytest.raises(ModelFormatError, match=r"before version 1\.6.*save"):
        open_checkpoint(io.BytesIO(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + bytes(99)), "w")
    with pytest.raises(ModelFormatError, match="no PyTorch checkpoint"):
        open_checkpoint(io.BytesIO(b""), "w")
    with pytest.raises(ModelFormatError, match=r"no data\.pkl"):
        open_checkpoint(io.BytesIO(whole.replace(b"data.pkl", b"data.pck")), "w")
    for keep in range(4, len(whole) - 22, 101):
        with pytest.raises(ModelFormatError, match="damaged or truncated"):
            open_checkpoint(io.BytesIO(whole[:keep]), "w")


class TestSentencePiece:
    """The protocol buffer's reader."""

    def test_pieces_scores_and_types(self, torch_format: Any) -> None:
        pieces = parse_sentencepiece(torch_format.sentencepiece(("<unk>", "▁a", "b")), "t")
        assert [(piece.text, piece.score, piece.type) for piece in pieces] == [
            ("<unk>", 0.0, 2),
            ("▁a", -1.0, 1),
            ("b", -2.0, 1),
        ]

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\x0a",
            b"\x0a\x05\x0a\x03ab",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            b"\xff" * 30,
            b"\x0b\x00",
            b"\x0a\x04\x0a\x02\xff\xfe",
            b"\x0a\x02\x18\x09",
            b"\x0a\x03\x12\x01\x00",
            b"not a model at all",
        ],
    )
    def test_damaged(self, data: bytes) -> None:
        with pytest.raises(ModelFormatError, match="t is no SentencePiece model"):
            parse_sentencepiece(data, "t")

    def test_truncated_anywhere(self, torch_format: Any) -> None:
        whole = torch_format.sentencepiece(("<unk>", "▁a", "b"))
        start = 0
        for keep in range(1, len(whole)):
            # A cut between two pieces leaves a valid, shorter model, which the count of pieces catches.
            try:
                assert len(parse_sentencepiece(whole[:keep], "t")) <= 3
            except ModelFormatError:
                start += 1
        assert start > len(whole) - 6
