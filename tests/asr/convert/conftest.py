"""A tiny NeMo checkpoint made by hand: configuration, tensors and tokenizer, all of which a test may change.

The shapes are written out here, from NeMo's modules, so that they check the converter's and do not repeat
them. Pickles are assembled opcode by opcode: PyTorch is not installed where the tests run.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

D, HEADS, FF, KERNEL, CHANNELS, MELS, HIDDEN, JOINT = 32, 4, 64, 5, 3, 16, 32, 32
PIECES = ("<unk>", "▁a", "b", "▁", "c", ".")
DURATIONS = [0, 1, 2]

_STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "bfloat16": "BFloat16Storage",
}


def _text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _integer(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(16, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def _tuple(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(_integer(n) for n in values) + b"t"


_EMPTY_ORDERED_DICT = b"ccollections\nOrderedDict\n)R"


def pickled_tensor(
    storage: str, key: str, count: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> bytes:
    """The opcodes that torch.save writes for one tensor."""
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + (
            b"("
            + _text("storage")
            + f"ctorch\n{storage}\n".encode()
            + _text(key)
            + _text("cpu")
            + _integer(count)
        )
        + b"tQ"
        + (_integer(offset) + _tuple(shape) + _tuple(strides) + b"\x89" + _EMPTY_ORDERED_DICT)
        + b"tR"
    )


def pickled_dict(items: dict[str, bytes]) -> bytes:
    """A state dict of already pickled values, with the module versions that torch.save adds."""
    body = b"".join(_text(name) + value for name, value in items.items())
    versions = b"}" + _text("_metadata") + _EMPTY_ORDERED_DICT + b"s"
    return b"\x80\x02" + _EMPTY_ORDERED_DICT + b"(" + body + b"u" + versions + b"b."


def torch_zip(index: bytes, storages: dict[str, bytes], **extra: bytes) -> bytes:
    """A checkpoint file from its pickle and its storages."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("weights/data.pkl", index)
        for key, data in storages.items():
            archive.writestr(f"weights/data/{key}", data)
        for name, data in extra.items():
            archive.writestr(f"weights/{name}", data)
    return stream.getvalue()


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """PyTorch's strides of a contiguous tensor."""
    return tuple(int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape)))


def checkpoint_bytes(tensors: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """A checkpoint of contiguous tensors."""
    items, storages = {}, {}
    for index, (name, array) in enumerate(tensors.items()):
        key, kind = str(index), _STORAGES[array.dtype.name]
        items[name] = pickled_tensor(kind, key, array.size, 0, array.shape, contiguous(array.shape))
        storages[key] = array.tobytes()
    return torch_zip(pickled_dict(items), storages)


def sentencepiece_bytes(pieces: tuple[str, ...]) -> bytes:
    """A SentencePiece model with a score each; the first piece is the unknown one."""

    def message(number: int, data: bytes) -> bytes:
        assert len(data) < 128
        return bytes([number << 3 | 2, len(data)]) + data

    out = b""
    for index, piece in enumerate(pieces):
        score = bytes([2 << 3 | 5]) + struct.pack("<f", -float(index))
        kind = bytes([3 << 3, 2]) if index == 0 else b""
        out += message(1, message(1, piece.encode()) + score + kind)
    return out + message(2, b"\x20\x01")


def _config() -> dict[str, Any]:
    vocabulary = list(PIECES)
    modules = "nemo.collections.asr.modules."
    return {
        "target": "nemo.collections.asr.models.hybrid_rnnt_ctc_bpe_models.EncDecHybridRNNTCTCBPEModel",
        "model_defaults": {"enc_hidden": D},
        "tokenizer": {"type": "bpe", "model_path": "nemo:0123_tokenizer.model"},
        "preprocessor": {
            "_target_": modules + "AudioToMelSpectrogramPreprocessor",
            "sample_rate": 16000,
            "window_size": 0.025,
            "window_stride": 0.01,
            "features": MELS,
            "n_fft": 512,
            "window": "hann",
            "normalize": "per_feature",
        },
        "encoder": {
            "_target_": modules + "ConformerEncoder",
            "feat_in": "${model.preprocessor.features}",
            "n_layers": 1,
            "d_model": "${model_defaults.enc_hidden}",
            "subsampling": "dw_striding",
            "subsampling_factor": 8,
            "subsampling_conv_channels": CHANNELS,
            "ff_expansion_factor": FF // D,
            "n_heads": HEADS,
            "conv_kernel_size": KERNEL,
            "xscaling": False,
        },
        "decoder": {"_target_": modules + "RNNTDecoder", "prednet": {}},
        "joint": {
            "_target_": modules + "RNNTJoint",
            "jointnet": {"activation": "relu"},
            "vocabulary": vocabulary,
        },
        "decoding": {"durations": DURATIONS, "greedy": {"max_symbols": 7}},
        "aux_ctc": {"decoder": {"_target_": modules + "ConvASRDecoder", "vocabulary": list(vocabulary)}},
    }


def _shapes() -> dict[str, tuple[int, ...]]:
    rows = len(PIECES) + 1
    shapes: dict[str, tuple[int, ...]] = {
        "preprocessor.featurizer.window": (400,),
        "preprocessor.featurizer.fb": (1, MELS, 257),
        "encoder.pre_encode.out.weight": (D, CHANNELS * MELS // 8),
        "encoder.pre_encode.out.bias": (D,),
        "encoder.pre_encode.conv.0.weight": (CHANNELS, 1, 3, 3),
        "encoder.pre_encode.conv.2.weight": (CHANNELS, 1, 3, 3),
        "encoder.pre_encode.conv.3.weight": (CHANNELS, CHANNELS, 1, 1),
        "encoder.pre_encode.conv.5.weight": (CHANNELS, 1, 3, 3),
        "encoder.pre_encode.conv.6.weight": (CHANNELS, CHANNELS, 1, 1),
        **{f"encoder.pre_encode.conv.{index}.bias": (CHANNELS,) for index in (0, 2, 3, 5, 6)},
    }
    layer: dict[str, tuple[int, ...]] = {
        "feed_forward1.linear1.weight": (FF, D),
        "feed_forward1.linear1.bias": (FF,),
        "feed_forward1.linear2.weight": (D, FF),
        "feed_forward1.linear2.bias": (D,),
        "feed_forward2.linear1.weight": (FF, D),
        "feed_forward2.linear1.bias": (FF,),
        "feed_forward2.linear2.weight": (D, FF),
        "feed_forward2.linear2.bias": (D,),
        "conv.pointwise_conv1.weight": (2 * D, D, 1),
        "conv.pointwise_conv1.bias": (2 * D,),
        "conv.depthwise_conv.weight": (D, 1, KERNEL),
        "conv.depthwise_conv.bias": (D,),
        "conv.pointwise_conv2.weight": (D, D, 1),
        "conv.pointwise_conv2.bias": (D,),
        "conv.batch_norm.weight": (D,),
        "conv.batch_norm.bias": (D,),
        "conv.batch_norm.running_mean": (D,),
        "conv.batch_norm.running_var": (D,),
        "conv.batch_norm.num_batches_tracked": (),
        "self_attn.pos_bias_u": (HEADS, D // HEADS),
        "self_attn.pos_bias_v": (HEADS, D // HEADS),
        "self_attn.linear_pos.weight": (D, D),
    }
    for name in ("q", "k", "v", "out"):
        layer |= {f"self_attn.linear_{name}.weight": (D, D), f"self_attn.linear_{name}.bias": (D,)}
    for name in ("norm_feed_forward1", "norm_self_att", "norm_conv", "norm_feed_forward2", "norm_out"):
        layer |= {f"{name}.weight": (D,), f"{name}.bias": (D,)}
    shapes |= {f"encoder.layers.0.{name}": shape for name, shape in layer.items()}
    return shapes | {
        "decoder.prediction.embed.weight": (rows, HIDDEN),
        "decoder.prediction.dec_rnn.lstm.weight_ih_l0": (4 * HIDDEN, HIDDEN),
        "decoder.prediction.dec_rnn.lstm.weight_hh_l0": (4 * HIDDEN, HIDDEN),
        "decoder.prediction.dec_rnn.lstm.bias_ih_l0": (4 * HIDDEN,),
        "decoder.prediction.dec_rnn.lstm.bias_hh_l0": (4 * HIDDEN,),
        "joint.enc.weight": (JOINT, D),
        "joint.enc.bias": (JOINT,),
        "joint.pred.weight": (JOINT, HIDDEN),
        "joint.pred.bias": (JOINT,),
        "joint.joint_net.2.weight": (rows + len(DURATIONS), JOINT),
        "joint.joint_net.2.bias": (rows + len(DURATIONS),),
        "ctc_decoder.decoder_layers.0.weight": (rows, D, 1),
        "ctc_decoder.decoder_layers.0.bias": (rows,),
    }


def _tensors() -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for name, shape in _shapes().items():
        count = name.endswith("num_batches_tracked")
        tensors[name] = np.array(7, np.int64) if count else random.standard_normal(shape).astype(np.float32)
    return tensors


@dataclass
class TinyModel:
    """A hybrid TDT + CTC checkpoint; change what the test is about, then :meth:`save`."""

    config: dict[str, Any] = field(default_factory=_config)
    tensors: dict[str, np.ndarray[Any, Any]] = field(default_factory=_tensors)
    tokenizer: bytes = sentencepiece_bytes(PIECES)
    weights: bytes | None = None  # in place of the tensors
    leave_out: tuple[str, ...] = ()  # members of the archive

    def set(self, path: str, value: object) -> None:
        """Sets an option of the configuration by its dotted path."""
        *parents, last = path.split(".")
        node = self.config
        for name in parents:
            node = node[name]
        node[last] = value

    def without(self, *prefixes: str) -> None:
        """Drops the tensors whose names begin so."""
        self.tensors = {name: array for name, array in self.tensors.items() if not name.startswith(prefixes)}

    def save(self, path: Path, mode: str = "w") -> Path:
        """Writes the archive; ``mode`` is tarfile's ("w:gz" to compress)."""
        members = {
            "0123_tokenizer.model": self.tokenizer,
            "model_config.yaml": yaml.safe_dump(self.config, allow_unicode=True).encode(),
            "model_weights.ckpt": checkpoint_bytes(self.tensors) if self.weights is None else self.weights,
        }
        with tarfile.open(path, mode) as archive:
            for name, data in members.items():
                if name not in self.leave_out:
                    info = tarfile.TarInfo(f"./{name}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
        return path


@pytest.fixture
def tiny() -> TinyModel:
    """A tiny hybrid model to change and save."""
    return TinyModel()


@pytest.fixture
def torch_format() -> SimpleNamespace:
    """Functions that assemble PyTorch files."""
    return SimpleNamespace(
        tensor=pickled_tensor,
        dictionary=pickled_dict,
        zip=torch_zip,
        checkpoint=checkpoint_bytes,
        sentencepiece=sentencepiece_bytes,
    )
