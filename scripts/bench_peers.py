#!/usr/bin/env python3
"""Measure a checkpoint's time and memory on speech: this engine beside NeMo and onnx-asr.

    python scripts/bench_peers.py --checkpoint model.nemo --nemo-python nemo/bin/python \\
        --onnx-python onnx/bin/python clip.flac --types f32 q8_0 --threads 2 --rounds 3

Run it with a Python that has ``asr`` installed. Each peer has an environment of its own, and is left out
without it:

    pip install torch==2.13.0 "nemo-toolkit[asr]==2.7.3" onnx            # NeMo; also exports for onnx-asr
    pip install onnx-asr==0.12.0 onnxruntime==1.32.0 onnx soundfile      # onnx-asr

The checkpoint is converted to every type in ``--types``, and exported by NeMo to ONNX, in float32 and with
the matrix products in int8 (dynamic). The files, about 3 times the checkpoint's size, go into ``--work``,
where the next call finds them, or into a temporary folder.

Every run is a process of its own: load, one call to warm up, then up to ``--repeats`` calls on samples that
are in memory already (fewer when ``--seconds`` are over, but three). The engines take turns, A B C A B C,
``--rounds`` times, with the same number of threads; our time is divided by a peer's of the same round.
Encoder output and texts are compared at the end.

A peer gets the fastest setting found that its own options offer. For onnx-asr that is one pool of threads for
encoder and decoder, and NumPy's BLAS with one thread; ``--onnx-pools own`` measures it as it comes, which is
much slower. Where "mel", "encoder" and "decoder" add up to much less than "best", an engine's own threads are
in each other's way: look for a better setting before taking its time for what it can do.

Seconds; "mel", "encoder" and "decoder" are the parts, best of three; "memory" is the process's peak (Linux),
mapped weights included; "x real time" is the clip's length by the best time; "CPU" is what the calling thread
has used in its best run, which other processes disturb less than the time on the clock; only measured with
one thread. "others" is how many processors other processes kept busy meanwhile (Linux): a pair with more
than 0.1 there is in brackets and not in the median. Each run waits until the machine is quiet, at most
``--patience`` seconds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from peers import report
from peers.engines import read_clip
from peers.models import make_gguf, make_onnx
from peers.running import Engine, Plan, Result, run_rounds

TYPES = ("f32", "f16", "q8_0")


def _interpreter(text: str) -> str:
    """An absolute path, links kept: a virtual environment is found through its own."""
    found = shutil.which(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is no program")
    return os.path.abspath(found)


def _existing(text: str) -> Path:
    path = Path(text).resolve()
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is no file")
    return path


def _engines(arguments: argparse.Namespace, folder: Path) -> list[Engine]:
    """Every engine asked for, with its model made where it is not there yet."""
    checkpoint, python = arguments.checkpoint, sys.executable
    engines = [
        Engine("asr", "asr", kind, python, make_gguf(checkpoint, kind, folder)) for kind in arguments.types
    ]
    if arguments.nemo_python:
        engines.append(Engine("NeMo", "nemo", "f32", arguments.nemo_python, checkpoint))
    if arguments.onnx_python:
        onnx = make_onnx(checkpoint, folder, arguments.nemo_python, arguments.onnx_python)
        options = ("--pools", arguments.onnx_pools)
        engines += [
            Engine("onnx-asr", "onnx", kind, arguments.onnx_python, onnx, options) for kind in ("f32", "int8")
        ]
    return engines


def _measure(
    engines: list[Engine], clip: Path, threads: int, folder: Path, arguments: argparse.Namespace
) -> None:
    seconds = len(read_clip(clip)) / 16000
    plan = Plan(arguments.repeats, arguments.seconds, arguments.patience)

    def show(engine: Engine, result: Result) -> None:
        print(report.row(engine, clip, seconds, threads, result), flush=True)

    print(report.header(), flush=True)
    table = run_rounds(engines, arguments.rounds, clip, threads, folder, plan, show)
    for part in (
        report.ratios(engines, table),
        report.comparison(engines, table[-1], folder),
        report.versions(engines, table[-1]),
    ):
        if part:
            print(f"\n{part}")
    print(flush=True)


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clip", type=_existing, nargs="+", help="speech, 16 kHz mono")
    parser.add_argument("--checkpoint", type=_existing, required=True, help="a .nemo file")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=["q8_0"], help="of our model")
    parser.add_argument("--nemo-python", type=_interpreter, help="Python with NeMo")
    parser.add_argument("--onnx-python", type=_interpreter, help="Python with onnx-asr")
    parser.add_argument(
        "--onnx-pools",
        choices=["shared", "own"],
        default="shared",
        help="its threads: one pool, which is faster, or as it comes, a pool for each model",
    )
    parser.add_argument("--work", type=Path, help="folder for the models, kept and used again")
    parser.add_argument("--threads", type=_at_least_one, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=_at_least_one, default=1, help="of all engines")
    parser.add_argument("--repeats", type=_at_least_one, default=5)
    parser.add_argument("--seconds", type=float, default=30.0, help="of repeats in a run")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a quiet machine")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.work or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        engines = _engines(arguments, folder)
        for clip in arguments.clip:
            for threads in arguments.threads:
                _measure(engines, clip, threads, Path(scratch), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
