"""One run of one engine, in the Python that has it: ``python -m peers.engines ENGINE ...``.

Load, one call to warm up, then the calls that count, on samples that are in memory already; then the parts
alone, the text of every head, and the encoder's output for comparison. Prints one line of JSON.

NeMo is measured without its ``transcribe()``, whose data loader would cost it time: preprocessor, encoder and
the checkpoint's own decoding, in evaluation and inference mode. onnx-asr is measured by its ``recognize()``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Result = dict[str, Any]


def read_clip(path: Path) -> Any:
    """The samples of a file of 16 kHz, mono."""
    import soundfile as sf

    samples, rate = sf.read(path, dtype="float32")
    if rate != 16000 or samples.ndim != 1:
        raise SystemExit(f"{path} is not 16 kHz mono")
    return samples


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


def run_asr(arguments: argparse.Namespace) -> Result:
    """Measures this project's engine."""
    import numpy as np

    samples = read_clip(arguments.clip)
    start = time.perf_counter()
    import asr

    model = asr.load_model(arguments.model, n_threads=arguments.threads)
    result: Result = {"load": time.perf_counter() - start}
    result |= _timed(lambda: model.transcribe(samples), arguments)
    result["peak"] = _peak_mb()
    encoded = model.encode(samples)
    head = model._heads[model.decoders[0]]  # no public way leads from encoder output to tokens
    result["mel"] = _best(lambda: model.log_mel(samples))
    result["encoder"] = _best(lambda: model.encode(samples)) - result["mel"]
    result["decoder"] = _best(lambda: head.decode(encoded))
    result["texts"] = {
        "ctc" if name == "ctc" else "transducer": model.transcribe(samples, decoder=name).text
        for name in model.decoders
    }
    result["versions"] = f"asr {asr.__version__}"
    np.save(arguments.states, encoded)
    return result


def run_nemo(arguments: argparse.Namespace) -> Result:
    """Measures NeMo."""
    import numpy as np

    samples = read_clip(arguments.clip)
    start = time.perf_counter()
    import nemo
    import torch
    from nemo.collections.asr.models import ASRModel
    from nemo.utils import logging

    logging.setLevel(logging.ERROR)
    torch.set_num_threads(arguments.threads)
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
    result["versions"] = f"NeMo {nemo.__version__} with PyTorch {torch.__version__}"
    return result


def run_onnx(arguments: argparse.Namespace) -> Result:
    """Measures onnx-asr on a folder from :mod:`peers.models`; ``arguments.type`` is f32 or int8.

    As it comes, encoder, decoder and NumPy's BLAS have a pool of threads each, which go on spinning after
    their work and take the processors from one another: the whole then takes much longer than its parts.
    ``--pools shared`` gives both models one pool, and BLAS, which has next to nothing to do, one thread.
    """
    shared = arguments.pools == "shared"
    if shared:
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported
    import numpy as np

    samples = read_clip(arguments.clip)
    start = time.perf_counter()
    from importlib.metadata import version

    import onnx_asr
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.inter_op_num_threads = 1
    if shared:
        onnxruntime.set_global_thread_pool_sizes(arguments.threads, 1)
        options.use_per_session_threads = False
    kind = json.loads((arguments.model / "config.json").read_text())["model_type"]
    model = onnx_asr.load_model(
        kind,
        arguments.model,
        quantization=None if arguments.type == "f32" else arguments.type,
        sess_options=options,
        providers=["CPUExecutionProvider"],
    )
    result: Result = {"load": time.perf_counter() - start}
    result |= _timed(lambda: model.recognize(samples), arguments)
    result["peak"] = _peak_mb()
    inner, length = model.asr, np.array([len(samples)], np.int64)
    features = inner._preprocessor(samples[None], length)
    encoded = inner._encode(*features)
    result["mel"] = _best(lambda: inner._preprocessor(samples[None], length))
    result["encoder"] = _best(lambda: inner._encode(*features))
    result["decoder"] = _best(lambda: list(inner._decoding(*encoded)))
    # Of the pieces: recognize() takes away spaces before punctuation, which SentencePiece keeps.
    pieces = model.with_timestamps().recognize(samples).tokens or []
    result["texts"] = {"transducer": "".join(pieces).removeprefix(" ")}
    result["versions"] = f"onnx-asr {version('onnx-asr')} with ONNX Runtime {onnxruntime.__version__}"
    np.save(arguments.states, encoded[0][0, : int(encoded[1][0])])
    return result


ENGINES = {"asr": run_asr, "nemo": run_nemo, "onnx": run_onnx}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("clip", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--type", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--states", type=Path, required=True, help="file for the encoder's output")
    parser.add_argument("--pools", choices=["shared", "own"], help="of threads, for onnx-asr")
    arguments = parser.parse_args()
    print(json.dumps(ENGINES[arguments.engine](arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
