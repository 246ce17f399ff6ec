"""Once the longest clip was seen, nothing grows: compute buffers, threads, memory."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import asr
from asr.backend import Backend

Array = npt.NDArray[np.float32]
TASKS = Path("/proc/self/task")
STATUS = Path("/proc/self/statm")

needs_proc = pytest.mark.skipif(not TASKS.exists(), reason="needs /proc")


@pytest.fixture(scope="module")
def model() -> asr.Model:
    return asr.load_model(n_threads=1)


@pytest.fixture(scope="module")
def mixed(clips: dict[str, Array]) -> list[Array]:
    """The longest clip first, then 20 of mixed lengths."""
    long = clips["long"]
    lengths = np.random.default_rng(2).integers(160, len(long), 20)
    return [long, *(long[-n:] for n in lengths)]


def buffers(model: asr.Model) -> list[tuple[int, int]]:
    return [(b.compute_buffer_size, b.compute_buffer_address) for b in (model.backend, model.decoder_backend)]


def test_compute_buffers_stay(model: asr.Model, mixed: list[Array]) -> None:
    model.transcribe(mixed[0], decoder="tdt")
    model.transcribe(mixed[0], decoder="ctc")
    after_longest = buffers(model)
    assert all(size > 0 and address > 0 for size, address in after_longest)
    for clip in mixed[1:]:
        for decoder in ("tdt", "ctc"):
            model.transcribe(clip, decoder=decoder)
            assert buffers(model) == after_longest


@needs_proc
def test_no_thread_is_started(gguf_path: Callable[[str], Path], mixed: list[Array]) -> None:
    model = asr.load_model(gguf_path("tdt-ctc"), n_threads=2)
    model.transcribe(mixed[0])
    before = {task.name for task in TASKS.iterdir()}
    assert len(before) >= 2
    after_longest = buffers(model)
    for clip in mixed:
        model.transcribe(clip)
        assert {task.name for task in TASKS.iterdir()} == before
        assert buffers(model) == after_longest


def graphs_of(model: asr.Model, clip: Array) -> tuple[int, int, int]:
    model.transcribe(clip)  # projects the positions that it needs
    backend: Backend = model.decoder_backend
    before = backend.graphs_run
    encoder_before = model.backend.graphs_run
    tokens = model.transcribe(clip).tokens
    return model.backend.graphs_run - encoder_before, backend.graphs_run - before, len(tokens)


def test_hundreds_of_graphs_an_utterance_rnnt(
    tiny_model: Callable[[str, int], asr.Model], clips: dict[str, Array], report_line: Callable[[str], None]
) -> None:
    encoder, decoder, tokens = graphs_of(tiny_model("rnnt", 0), clips["long"][:160_000])
    report_line(f"graphs for 10 s: RNN-T fixture {decoder} ({tokens} tokens)")
    assert encoder == 1
    assert decoder >= 100
    # The encoder's half of the joint, the start; joint and prediction for each token; a joint for each blank.
    assert decoder > 2 + 2 * tokens > 2


def test_graphs_of_an_utterance_tdt(model: asr.Model, report_line: Callable[[str], None]) -> None:
    import soundfile as sf

    paths = sorted((Path(__file__).resolve().parents[1] / "data" / "wer").glob("piper-*.flac"))
    speech = np.concatenate([sf.read(path, dtype="float32")[0] for path in paths])[:160_000]
    encoder, decoder, tokens = graphs_of(model, speech)
    report_line(f"graphs for 10 s: bundled TDT model {decoder} ({tokens} tokens)")
    assert encoder == 1
    # A TDT skips frames: up to four for a blank.
    assert decoder > 2 + 2 * tokens > 2
    assert decoder >= 50


def test_a_token_is_embedded_once(gguf_path: Callable[[str], Path], clips: dict[str, Array]) -> None:
    model = asr.load_model(gguf_path("rnnt"), n_threads=1)
    first = model.transcribe(clips["long"])
    backend: Backend = model.decoder_backend
    before = backend.graphs_run
    again = model.transcribe(clips["long"])
    later = backend.graphs_run - before
    assert again == first
    # The start of sequence counts as a token here.
    assert before - later == len({token.id for token in first.tokens}) + 1 > 2


@needs_proc
def test_memory_is_flat(model: asr.Model, mixed: list[Array]) -> None:
    def resident() -> int:
        gc.collect()
        return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for clip in mixed:
        model.transcribe(clip)
    before = resident()
    for _ in range(5):
        for clip in mixed[1:]:
            model.transcribe(clip)
    assert resident() - before < 4 << 20
