"""Every type that ggml can store weights in: the model runs, and how far it is from float32.

The model is random and 256 wide, so that its rows fill the largest blocks. All matrices are made of rows from
one pool, which alone has to be quantised: some types take seconds for a thousand rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import asr
import ggml
from asr.backend import Backend, capture_graph_output, clone_weight, graph_input_tensor, weight_to_host_f32
from asr.convert.tensors import expected_tensors, is_matmul
from asr.hyperparameters import Encoder, Hyperparameters, Preprocessor, Transducer
from asr.loader import ModelLoader
from asr.nn.linear import linear
from asr.nn.lstm import LstmState, lstm_cell, lstm_input
from ggml import Type

if TYPE_CHECKING:
    GgufContent = Any  # conftest's; tests are imported by path and cannot import it

Array = npt.NDArray[np.float32]
WIDTH = 256

# Relative error (Frobenius norm of the difference over that of float32) of encoder, CTC log-probabilities and
# joint output: one and a half times what was measured. A random model does not survive two bits and less;
# test_arithmetic_of_a_type is the test of those types.
BOUNDS: dict[Type, tuple[float, float, float]] = {
    Type.F16: (0.0015, 0.00032, 0.00068),
    Type.Q4_0: (0.22, 0.046, 0.2),
    Type.Q4_1: (0.17, 0.039, 0.13),
    Type.Q5_0: (0.088, 0.022, 0.098),
    Type.Q5_1: (0.075, 0.019, 0.06),
    Type.Q8_0: (0.017, 0.0042, 0.017),
    Type.Q2_K: (0.6, 0.17, 0.61),
    Type.Q3_K: (0.38, 0.088, 0.39),
    Type.Q4_K: (0.17, 0.041, 0.17),
    Type.Q5_K: (0.076, 0.019, 0.065),
    Type.Q6_K: (0.046, 0.011, 0.046),
    Type.IQ2_XXS: (0.81, 0.2, 0.69),
    Type.IQ2_XS: (0.78, 0.2, 0.7),
    Type.IQ3_XXS: (0.43, 0.11, 0.46),
    Type.IQ1_S: (1.1, 0.29, 1.3),
    Type.IQ4_NL: (0.2, 0.053, 0.2),
    Type.IQ3_S: (0.33, 0.072, 0.39),
    Type.IQ2_S: (0.58, 0.14, 0.57),
    Type.IQ4_XS: (0.2, 0.055, 0.21),
    Type.F64: (1e-6, 1e-6, 1e-6),
    Type.IQ1_M: (1.1, 0.26, 1.1),
    Type.BF16: (0.012, 0.0027, 0.0046),
    Type.TQ1_0: (1.5, 0.41, 1.7),
    Type.TQ2_0: (1.5, 0.41, 1.7),
    Type.MXFP4: (0.3, 0.093, 0.29),
    Type.NVFP4: (0.24, 0.053, 0.22),
    Type.Q1_0: (1.4, 0.3, 0.92),
    Type.Q2_0: (1.4, 0.35, 1.3),
}

# ggml rounds activations to 8 bits (16 for half types) where it multiplies by weights that are not float32.
ROUNDING = 0.03

# ggml has no code to make these from floats, or they are for intermediate results only.
NOT_FOR_WEIGHTS = {Type.Q8_1, Type.Q8_K}
INTEGERS = {Type.I8: np.int8, Type.I16: np.int16, Type.I32: np.int32, Type.I64: np.int64}
TYPES = [t for t in Type if t not in NOT_FOR_WEIGHTS and t not in INTEGERS and t != Type.F32]
PLAIN = {Type.F32, Type.F16, Type.BF16, Type.F64}

MODEL = Hyperparameters(
    preprocessor=Preprocessor(16000, 80, 512, 400, 160, 0.97, 2.0, 2.0**-24, "per_feature"),
    encoder=Encoder(
        feat_in=80,
        d_model=WIDTH,
        n_layers=2,
        n_heads=4,
        ff_dim=2 * WIDTH,
        conv_kernel=9,
        conv_context=(4, 4),
        conv_norm_type="batch_norm",
        subsampling_factor=8,
        subsampling_conv_channels=128,  # times 10 bands: five blocks of 256
        causal_downsampling=False,
        pos_emb_max_len=5000,
        xscaling=False,
        use_bias=True,
        self_attention_model="rel_pos",
        att_contexts=((-1, -1),),
        att_context_style="regular",
    ),
    transducer=Transducer(WIDTH, 1, WIDTH, "relu", "joint.joint_net.2", 10, (0, 1, 2, 3, 4)),
    ctc_head="ctc_decoder.decoder_layers.0",
    vocab_size=60,
)


@dataclass
class Wide:
    """The model's float32 tensors; for matrices which rows of the pool they are made of."""

    base: GgufContent  # keys, filterbank and window of a real file
    arrays: dict[str, Array]
    rows: dict[str, npt.NDArray[np.intp]]
    pool: Array


@pytest.fixture(scope="module")
def wide(gguf_path: Callable[[str], Path], gguf_content: Callable[[Path], GgufContent]) -> Wide:
    rng = np.random.default_rng(11)
    base = gguf_content(gguf_path("tdt-ctc"))
    pool = (rng.standard_normal((256, WIDTH)) / 16).astype(np.float32)
    arrays: dict[str, Array] = {}
    rows: dict[str, npt.NDArray[np.intp]] = {}
    for name, shape in expected_tensors(MODEL).items():
        if name.startswith("preprocessor."):
            arrays[name] = base.array(name)
        elif is_matmul(name):
            rows[name] = rng.integers(0, len(pool), (shape[0], shape[1] // WIDTH))
            arrays[name] = pool[rows[name]].reshape(shape[:2])
        elif name.endswith("running_var"):
            arrays[name] = np.ones(shape, np.float32)
        elif len(shape) > 1 and "pos_bias" not in name:
            fan_in = int(np.prod(shape[1:]))
            arrays[name] = (rng.standard_normal(shape) * (2 / fan_in) ** 0.5).astype(np.float32)
        else:
            centre = 1 if "norm" in name and name.endswith("weight") else 0
            arrays[name] = (centre + 0.1 * rng.standard_normal(shape)).astype(np.float32)
    return Wide(base, arrays, rows, pool)


def encoded(values: Array, type: Type) -> bytes:
    if type == Type.BF16:
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    if type in PLAIN:
        return values.astype({Type.F32: "f4", Type.F16: "f2", Type.F64: "f8"}[type]).tobytes()
    return ggml.quantize(values, type, np.ones(values.shape[-1], np.float32))


@pytest.fixture(scope="module")
def load(wide: Wide, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Type], asr.Model]:
    """A function from a type to the model with its matrices in that type; F16, BF16, F64: all tensors."""

    @cache
    def make(type: Type) -> asr.Model:
        pool = np.frombuffer(encoded(wide.pool, type), np.uint8).reshape(len(wide.pool), -1)
        content = wide.base
        content.tensors = {}
        for name, array in wide.arrays.items():
            if name in wide.rows:
                content.tensors[name] = (array.shape, type, pool[wide.rows[name]].tobytes())
            else:
                other = type if type in PLAIN else Type.F32
                content.tensors[name] = (array.shape, other, encoded(array, other))
        return write(wide, content, tmp_path_factory.mktemp("wide") / f"{type.name}.gguf")

    return make


def write(wide: Wide, content: GgufContent, path: Path) -> asr.Model:
    encoder, pairs = MODEL.encoder, dict(content.pairs)
    numbers = {
        "encoder.d_model": encoder.d_model,
        "encoder.n_layers": encoder.n_layers,
        "encoder.n_heads": encoder.n_heads,
        "encoder.ff_dim": encoder.ff_dim,
        "encoder.conv_kernel": encoder.conv_kernel,
        "encoder.subsampling_conv_channels": encoder.subsampling_conv_channels,
        "vocab_size": MODEL.vocab_size,
        "blank_id": MODEL.vocab_size,
    }
    for key, number in numbers.items():
        content.pairs[f"parakeet.{key}"] = ((4,), number)
    content.pairs["parakeet.tokenizer.pieces"] = ((9, 8), [f"▁{i}" for i in range(MODEL.vocab_size)])
    content.pairs.pop("parakeet.tokenizer.types", None)
    content.pairs["parakeet.tdt.durations"] = ((9, 5), list(MODEL.transducer.durations))  # type: ignore[union-attr]
    content.pairs["parakeet.encoder.xscaling"] = ((7,), False)
    content.write(path)
    content.pairs = pairs
    return asr.load_model(path, n_threads=1)


def joint_output(model: asr.Model) -> Array:
    """Embedding, two steps of the LSTM and the joint, for a fixed encoder frame: all of the transducer."""
    loader: ModelLoader = model._loader
    frame = np.random.default_rng(5).standard_normal(WIDTH)

    def build(ctx: ggml.Context) -> ggml.Tensor:
        zero, name = np.zeros(WIDTH), "decoder.prediction.dec_rnn.lstm"
        state = LstmState(*(graph_input_tensor(ctx, Type.F32, (WIDTH,), zero) for _ in range(2)))
        for token in (60, 7):
            index = graph_input_tensor(ctx, Type.I32, (1,), [token])
            x = ggml.get_rows(ctx, clone_weight(ctx, loader, "decoder.prediction.embed.weight"), index)
            x = ggml.reshape_1d(ctx, x, WIDTH)
            gates = lstm_input(ctx, loader, name, 0, x)
            state = lstm_cell(ctx, loader, name, 0, gates, state)
        capture_graph_output(state.hidden)
        encoder = linear(ctx, loader, "joint.enc", graph_input_tensor(ctx, Type.F32, (WIDTH,), frame))
        both = ggml.add(ctx, encoder, linear(ctx, loader, "joint.pred", state.hidden))
        return linear(ctx, loader, "joint.joint_net.2", ggml.relu(ctx, both))

    return Backend(1).compute(build)


def relative(found: Array, expected: Array) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.fixture(scope="module")
def speech(clips: dict[str, Array]) -> Array:
    return clips["medium"][:32000]


def test_reference_is_lively(load: Callable[[Type], asr.Model], speech: Array) -> None:
    model = load(Type.F32)
    frames = model.encode(speech)
    assert np.isfinite(frames).all()
    assert np.linalg.norm(np.diff(frames, axis=0)) > 0.1 * np.linalg.norm(frames)
    for decoder in ("tdt", "ctc"):
        tokens = model.transcribe(speech, decoder=decoder).tokens
        assert len({token.id for token in tokens}) > 3


@pytest.mark.parametrize("type", TYPES, ids=lambda t: t.name)
def test_weight_type(
    type: Type, load: Callable[[Type], asr.Model], speech: Array, report_line: Callable[[str], None]
) -> None:
    reference, model = load(Type.F32), load(type)
    assert model._loader.type_counts[ggml.type_info(type).name] > 20
    errors = (
        relative(model.encode(speech), reference.encode(speech)),
        relative(model.log_probs(speech), reference.log_probs(speech)),
        relative(joint_output(model), joint_output(reference)),
    )
    report_line(
        f"weights as {type.name}: relative error of encoder {errors[0]:.2g}, CTC {errors[1]:.2g}, "
        f"joint {errors[2]:.2g}"
    )
    for decoder in ("tdt", "ctc"):
        assert model.transcribe(speech, decoder=decoder).tokens
    for error, bound in zip(errors, BOUNDS[type], strict=True):
        assert error < bound


@pytest.mark.parametrize("type", TYPES, ids=lambda t: t.name)
def test_arithmetic_of_a_type(
    type: Type, load: Callable[[Type], asr.Model], wide: Wide, speech: Array, tmp_path: Path
) -> None:
    """Against float32 with the same, rounded weights: what is left is the rounding of activations."""
    model = load(type)
    content = wide.base
    content.tensors = {}
    for name, array in wide.arrays.items():
        content.set_array(name, weight_to_host_f32(model._loader, name).reshape(array.shape))
    rounded = write(wide, content, tmp_path / "rounded.gguf")
    assert relative(model.encode(speech), rounded.encode(speech)) < ROUNDING
    assert relative(model.log_probs(speech), rounded.log_probs(speech)) < ROUNDING
    assert relative(joint_output(model), joint_output(rounded)) < ROUNDING


@pytest.mark.parametrize("type", INTEGERS, ids=lambda t: t.name)
def test_integers(type: Type, wide: Wide, speech: Array, tmp_path: Path) -> None:
    """Integer types hold whole numbers only: here the biases, rounded."""
    results = []
    for stored in (Type.F32, type):
        content = wide.base
        content.tensors = {}
        for name, array in wide.arrays.items():
            if name.endswith("bias") and "norm" not in name:
                whole = np.round(5 * array)
                data = whole.astype(INTEGERS[type]) if stored == type else whole
                content.tensors[name] = (array.shape, stored, data.tobytes())
            else:
                content.tensors[name] = (array.shape, Type.F32, array.tobytes())
        model = write(wide, content, tmp_path / f"{stored.name}.gguf")
        results.append((model.encode(speech), model.log_probs(speech), joint_output(model)))
    for expected, found in zip(*results, strict=True):
        assert np.array_equal(expected, found)


@pytest.mark.parametrize("type", sorted(NOT_FOR_WEIGHTS), ids=lambda t: t.name)
def test_types_of_intermediate_results(type: Type, wide: Wide, tmp_path: Path) -> None:
    with pytest.raises(ggml.GgmlError):
        ggml.quantize(wide.pool, type)
    content = wide.base
    content.tensors = {name: (a.shape, 0, a.tobytes()) for name, a in wide.arrays.items()}
    name = "encoder.layers.0.feed_forward1.linear1.weight"
    shape = wide.arrays[name].shape
    info = ggml.type_info(type)
    content.tensors[name] = (shape, type, bytes(shape[0] * shape[1] // info.block_size * info.type_size))
    with pytest.raises(asr.ModelFormatError, match=rf"{type.name}\.gguf.*{name}.*{info.name}"):
        write(wide, content, tmp_path / f"{type.name}.gguf")


def test_every_type_is_covered() -> None:
    assert set(TYPES) | NOT_FOR_WEIGHTS | set(INTEGERS) | {Type.F32} == set(Type)
    assert set(BOUNDS) == set(TYPES)
