"""The models each engine needs, made from one checkpoint and kept in a folder.

``python -m peers.models export`` runs in NeMo's Python, ``quantize`` in onnx-asr's. What is there already,
and not older than the checkpoint, is used again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers.running import run_module

ENCODER, JOINT = "encoder-model", "decoder_joint-model"


def _is_current(made: Path, checkpoint: Path) -> bool:
    return made.exists() and made.stat().st_mtime >= checkpoint.stat().st_mtime


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def make_gguf(checkpoint: Path, kind: str, folder: Path) -> Path:
    """``folder/NAME-KIND.gguf`` of a checkpoint, by ``asr``."""
    target = folder / f"{checkpoint.stem}-{kind}.gguf"
    if not _is_current(target, checkpoint):
        from asr.convert import convert_nemo

        _say(f"converting to {target.name}")
        convert_nemo(checkpoint, target, kind)
    return target


def make_onnx(checkpoint: Path, folder: Path, nemo_python: str | None, onnx_python: str) -> Path:
    """``folder/NAME-onnx``, the folder that onnx-asr loads: float32, and the matrix products in int8."""
    target = folder / f"{checkpoint.stem}-onnx"
    if _is_current(target / f"{ENCODER}.int8.onnx", checkpoint):
        return target
    if nemo_python is None:
        raise SystemExit(f"{target} is missing and takes NeMo to make: give --nemo-python too")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "onnx"
        made.mkdir()
        _say(f"exporting to {target.name}")
        run_module(nemo_python, "peers.models", ["export", str(checkpoint), str(made)])
        _say(f"quantizing in {target.name}")
        run_module(onnx_python, "peers.models", ["quantize", str(made)])
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)  # whole or not at all
    return target


def _config(model: Any) -> dict[str, object]:
    """What onnx-asr's config.json says of a model; it has no other front end than the one checked here."""
    if not hasattr(model, "joint"):
        raise SystemExit("only transducers are exported: leave out --onnx-python")
    if model.cfg.preprocessor.normalize != "per_feature":
        raise SystemExit(f"onnx-asr cannot normalise {model.cfg.preprocessor.normalize}")
    is_tdt = model.joint.num_extra_outputs > 0
    if is_tdt and list(model.cfg.model_defaults.tdt_durations) != list(range(model.joint.num_extra_outputs)):
        raise SystemExit("onnx-asr takes a duration's place in the list for the duration")
    return {
        "model_type": "nemo-conformer-tdt" if is_tdt else "nemo-conformer-rnnt",
        "features_size": int(model.cfg.preprocessor.features),
        "subsampling_factor": int(model.encoder.subsampling_factor),
        "max_tokens_per_step": int(model.cfg.decoding.greedy.get("max_symbols") or 10),
    }


def export(checkpoint: Path, folder: Path) -> None:
    """NeMo's own export, with the vocabulary and the settings that onnx-asr reads beside it."""
    from nemo.collections.asr.models import ASRModel
    from nemo.utils import logging

    logging.setLevel(logging.ERROR)
    model = ASRModel.restore_from(str(checkpoint), map_location="cpu").eval()
    config = _config(model)
    if hasattr(model, "ctc_decoder"):
        model.set_export_config({"decoder_type": "rnnt"})
    model.export(str(folder / "model.onnx"))
    pieces = [*model.tokenizer.vocab, "<blk>"]
    vocabulary = "".join(f"{piece} {index}\n" for index, piece in enumerate(pieces))
    (folder / "vocab.txt").write_text(vocabulary, encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _gather(folder: Path) -> None:
    """Puts what a model of more than 2 GB keeps in a file per tensor into one file per model."""
    import onnx

    scattered = [path for path in folder.iterdir() if path.suffix not in (".onnx", ".txt", ".json")]
    if not scattered:
        return
    for name in (ENCODER, JOINT):
        path = folder / f"{name}.onnx"
        onnx.save_model(onnx.load(path), path, save_as_external_data=True, location=f"{path.name}.data")
    for path in scattered:
        path.unlink()


def quantize(folder: Path) -> None:
    """The int8 models: weights of matrix products to 8 bits now, their inputs while they run."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    _gather(folder)
    for name in (ENCODER, JOINT):
        quantize_dynamic(
            folder / f"{name}.onnx",
            folder / f"{name}.int8.onnx",
            op_types_to_quantize=["MatMul"],
            weight_type=QuantType.QInt8,
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("export")
    step.add_argument("checkpoint", type=Path)
    step.add_argument("folder", type=Path)
    step = steps.add_parser("quantize")
    step.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.step == "export":
        export(arguments.checkpoint, arguments.folder)
    else:
        quantize(arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
