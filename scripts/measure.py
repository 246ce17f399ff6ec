#!/usr/bin/env python3
"""Measure time and memory of a model on speech, beside NeMo where wanted.

    python scripts/measure.py -m model.gguf clip.flac --threads 1 2
    python scripts/measure.py -m model.gguf clip.flac --nemo model.nemo --nemo-python ~/nemo/bin/python

Every run is a process of its own: load, one run to warm up, then up to ``--repeats`` runs on samples that are
in memory already (fewer when ``--seconds`` are over, but three). With ``--nemo`` the two engines take turns,
A B A B, ``--rounds`` times, with the same number of threads, and what they computed is compared. NeMo is
measured without its ``transcribe()``, whose data loader would cost it time: preprocessor, encoder and the
checkpoint's own decoding, in evaluation and inference mode.

Seconds; "mel", "encoder" and "decoder" are the parts, best of three; "memory" is the process's peak (Linux),
mapped weights included; "x real time" is the clip's length by the best time; "CPU" is what the calling thread
has used in its best run, which other processes disturb less than the time on the clock; only measured with
one thread. "others" is how many processors other processes kept busy meanwhile (Linux): repeat a run with
much more than 0.1 there. Each run waits until the machine is quiet, at most ``--patience`` seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Result = dict[str, Any]


def _best(function: Callable[[], object], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return min(taken)


def _timed(function: Callable[[], object], arguments: argparse.Namespace) -> Result:
    start = time.perf_counter()
    function()
    first = time.perf_counter() - start
    wall: list[float] = []
    cpu: list[float] = []
    while len(wall) < arguments.repeats and (len(wall) < 3 or sum(wall) < arguments.seconds):
        start, start_cpu = time.perf_counter(), time.thread_time()
        function()
        wall.append(time.perf_counter() - start)
        cpu.append(time.thread_time() - start_cpu)
    return {"first": first, "wall": wall, "cpu": min(cpu)}


def _peak_mb() -> float | None:
    """Peak resident memory of this process in MB; None where the system does not say.

    Not ``getrusage``: its maximum includes the process that started this one.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def _read(path: Path) -> Any:
    import soundfile as sf

    samples, rate = sf.read(path, dtype="float32")
    if rate != 16000 or samples.ndim != 1:
        raise SystemExit(f"{path} is not 16 kHz mono")
    return samples


def run_asr(arguments: argparse.Namespace) -> Result:
    """Measures this project's engine; leaves the encoder's output in ``arguments.states``."""
    import numpy as np

    samples = _read(arguments.clip)
    start = time.perf_counter()
    import asr

    model = asr.load_model(arguments.model, n_threads=arguments.worker_threads)
    result: Result = {"load": time.perf_counter() - start}
    result |= _timed(lambda: model.transcribe(samples), arguments)
    result["peak"] = _peak_mb()
    encoded = model.encode(samples)
    mel = _best(lambda: model.log_mel(samples))
    head = model._heads[model.decoders[0]]  # no public way leads from encoder output to tokens
    result["mel"] = mel
    result["encoder"] = _best(lambda: model.encode(samples)) - mel
    result["decoder"] = _best(lambda: head.decode(encoded))
    result["texts"] = {
        "ctc" if name == "ctc" else "transducer": model.transcribe(samples, decoder=name).text
        for name in model.decoders
    }
    np.save(arguments.states, encoded)
    return result


def run_nemo(arguments: argparse.Namespace) -> Result:
    """Measures NeMo on the same."""
    import numpy as np

    samples = _read(arguments.clip)
    start = time.perf_counter()
    import torch
    from nemo.collections.asr.models import ASRModel
    from nemo.utils import logging

    logging.setLevel(logging.ERROR)
    torch.set_num_threads(arguments.worker_threads)
    model = ASRModel.restore_from(str(arguments.model), map_location="cpu").eval()
    result: Result = {"load": time.perf_counter() - start}
    signal, length = torch.from_numpy(samples)[None], torch.tensor([len(samples)])

    def mel() -> Any:
        return model.preprocessor(input_signal=signal, length=length)

    def encode(features: Any) -> Any:
        return model.encoder(audio_signal=features[0], length=features[1])

    is_ctc = not hasattr(model, "joint")

    def ctc(encoded: Any) -> Any:
        head, decoding = (
            (model.decoder, model.decoding) if is_ctc else (model.ctc_decoder, model.ctc_decoding)
        )
        return decoding.ctc_decoder_predictions_tensor(head(encoder_output=encoded[0]), encoded[1])[0]

    def decode(encoded: Any) -> Any:
        if is_ctc:
            return ctc(encoded)
        return model.decoding.rnnt_decoder_predictions_tensor(*encoded)[0]

    with torch.inference_mode():
        result |= _timed(lambda: decode(encode(mel())), arguments)
        result["peak"] = _peak_mb()
        features = mel()
        encoded = encode(features)
        result["mel"] = _best(mel)
        result["encoder"] = _best(lambda: encode(features))
        result["decoder"] = _best(lambda: decode(encoded))
        texts = {} if is_ctc else {"transducer": decode(encoded).text}
        if is_ctc or hasattr(model, "ctc_decoder"):
            texts["ctc"] = ctc(encoded).text
        result["texts"] = texts
        np.save(arguments.states, encoded[0][0, :, : int(encoded[1][0])].numpy().T)
    return result


def _busy() -> float | None:
    """Seconds of processor time used by all processes since the machine started; None if not known."""
    if not Path("/proc/stat").exists():
        return None
    user, nice, system, _idle, _wait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split()[1:9]
    )
    ticks: int = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq + steal) / ticks


def _wait_until_quiet(patience: float) -> None:
    """Returns once all processors together have been idle for 2 s but for 0.1 of one."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        before = _busy()
        time.sleep(2.0)
        after = _busy()
        if before is None or after is None or after - before < 0.2:
            return


def _worker(engine: str, clip: Path, threads: int, states: Path, arguments: argparse.Namespace) -> Result:
    python, model = sys.executable, arguments.model
    if engine == "nemo":
        python, model = arguments.nemo_python, arguments.nemo
    command = [python, __file__, str(clip), "--worker", engine, "--worker-threads", str(threads)]
    command += ["-m", str(model), "--states", str(states)]
    command += ["--repeats", str(arguments.repeats), "--seconds", str(arguments.seconds)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    _wait_until_quiet(arguments.patience)
    start, busy, own = time.monotonic(), _busy(), os.times()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    taken, busy_after, own_after = time.monotonic() - start, _busy(), os.times()
    if done.returncode != 0:
        raise SystemExit(f"{engine} failed:\n{done.stderr[-3000:]}")
    result: Result = json.loads(done.stdout.splitlines()[-1])
    result["others"] = None
    if busy is not None and busy_after is not None:
        used = sum(own_after[:4]) - sum(own[:4])
        result["others"] = max(0.0, (busy_after - busy - used) / taken)
    return result


def _row(engine: str, clip: Path, seconds: float, threads: int, result: Result) -> str:
    best = min(result["wall"])
    cells = [
        engine,
        clip.stem,
        str(threads),
        f"{result['load']:.2f}",
        f"{result['first']:.3f}",
        f"{best:.3f}",
        f"{statistics.median(result['wall']):.3f}",
        f"{result['cpu']:.3f}" if threads == 1 else "",
        f"{result['mel']:.3f}",
        f"{result['encoder']:.3f}",
        f"{result['decoder']:.3f}",
        f"{seconds / best:.1f}",
        "" if result["peak"] is None else f"{result['peak']:.0f} MB",
        "" if result["others"] is None else f"{result['others']:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


HEADER = """\
| engine | clip | threads | load | first | best | median | CPU | mel | encoder | decoder | x real time | \
memory | others |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def _compare(ours: Path, theirs: Path, results: dict[str, Result]) -> str:
    import numpy as np

    a, b = np.load(ours), np.load(theirs)
    if a.shape != b.shape:
        return f"encoder shapes differ: {a.shape}, NeMo {b.shape}"
    relative = float(np.linalg.norm(a - b) / np.linalg.norm(b))
    texts = {
        head: "equal" if results["asr"]["texts"][head] == text else "DIFFERENT"
        for head, text in results["nemo"]["texts"].items()
    }
    heads = ", ".join(f"{head} {verdict}" for head, verdict in texts.items())
    return f"encoder max abs difference {np.abs(a - b).max():.1e}, relative {relative:.1e}; text: {heads}"


def _measure(clip: Path, threads: int, folder: Path, arguments: argparse.Namespace) -> None:
    seconds = len(_read(clip)) / 16000
    engines = ("asr", "nemo") if arguments.nemo else ("asr",)
    states = {engine: folder / f"{engine}.npy" for engine in engines}
    best: list[float] = []
    median: list[float] = []
    for _ in range(arguments.rounds):
        results = {}
        for engine in engines:
            results[engine] = _worker(engine, clip, threads, states[engine], arguments)
            print(_row(engine, clip, seconds, threads, results[engine]), flush=True)
        if arguments.nemo:
            ours, theirs = results["asr"]["wall"], results["nemo"]["wall"]
            best.append(min(ours) / min(theirs))
            median.append(statistics.median(ours) / statistics.median(theirs))
    if arguments.nemo:
        pairs = ", ".join(f"{ratio:.2f}" for ratio in best)
        print(
            f"  asr's time / NeMo's, pair by pair, of the best: {pairs}; median {statistics.median(best):.2f}"
        )
        print(f"  of the medians: {', '.join(f'{ratio:.2f}' for ratio in median)}")
        print(f"  {_compare(states['asr'], states['nemo'], results)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clip", type=Path, nargs="+", help="speech, 16 kHz mono")
    parser.add_argument("-m", "--model", help="GGUF file or name (default: the bundled model)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30.0, help="of repeats in a run")
    parser.add_argument("--rounds", type=int, default=1, help="of both engines")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a quiet machine")
    parser.add_argument("--nemo", type=Path, help="the checkpoint that the model was converted from")
    parser.add_argument("--nemo-python", default=sys.executable, help="Python with NeMo")
    parser.add_argument("--worker", choices=["asr", "nemo"], help=argparse.SUPPRESS)
    parser.add_argument("--worker-threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--states", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        arguments.clip = arguments.clip[0]
        arguments.model = None if arguments.model == "None" else arguments.model
        result = run_asr(arguments) if arguments.worker == "asr" else run_nemo(arguments)
        print(json.dumps(result))
        return 0
    print(HEADER)
    with tempfile.TemporaryDirectory() as folder:
        for clip in arguments.clip:
            for threads in arguments.threads:
                _measure(clip, threads, Path(folder), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
