"""What is printed: a row for each run, our time by each peer's, and whether all computed the same."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from peers.running import Engine, Result

COLUMNS = (
    "engine",
    "type",
    "clip",
    "threads",
    "load",
    "first",
    "best",
    "median",
    "CPU",
    "mel",
    "encoder",
    "decoder",
    "x real time",
    "memory",
    "others",
)

DISTURBED = 0.1  # processors that others kept busy during a run


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _header(columns: Sequence[str]) -> str:
    return _line(columns) + "\n" + "|---" * len(columns) + "|"


def header() -> str:
    """The head of the table of runs."""
    return _header(COLUMNS)


def row(engine: Engine, clip: Path, seconds: float, threads: int, result: Result) -> str:
    """A run's row in the table of runs."""
    best = min(result["wall"])
    return _line(
        [
            engine.name,
            engine.type,
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
    )


def versions(engines: Sequence[Engine], results: Sequence[Result]) -> str:
    """Which releases ran, each once."""
    named = {engine.name: result["versions"] for engine, result in zip(engines, results, strict=True)}
    return "Versions: " + ", ".join(named.values())


def _disturbed(result: Result) -> bool:
    return result["others"] is not None and result["others"] > DISTURBED


def _pairs(
    table: Sequence[Sequence[Result]], mine: int, theirs: int, summary: Callable[[Sequence[float]], float]
) -> list[str]:
    """Two cells: the ratio of each round, and their median without the disturbed ones."""
    shown, counted = [], []
    for results in table:
        ratio = summary(results[mine]["wall"]) / summary(results[theirs]["wall"])
        if _disturbed(results[mine]) or _disturbed(results[theirs]):
            shown.append(f"({ratio:.2f})")
        else:
            shown.append(f"{ratio:.2f}")
            counted.append(ratio)
    return [", ".join(shown), f"{statistics.median(counted):.2f}" if counted else "-"]


def ratios(engines: Sequence[Engine], table: Sequence[Sequence[Result]]) -> str:
    """Our time by each peer's, round by round, of the best call and of the median call; "" without both.

    A pair is in brackets, and not in the median, where other processes disturbed one of its runs.
    """
    ours = [index for index, engine in enumerate(engines) if engine.kind == "asr"]
    peers = [index for index, engine in enumerate(engines) if engine.kind != "asr"]
    if not ours or not peers:
        return ""
    rows = []
    for mine in ours:
        for theirs in peers:
            labels = [engines[mine].label, engines[theirs].label]
            best, middle = _pairs(table, mine, theirs, min), _pairs(table, mine, theirs, statistics.median)
            rows.append(_line([*labels, *best, *middle]))
    columns = ("time of", "by that of", "best, pair by pair", "median", "medians, pair by pair", "median")
    return "\n".join([_header(columns), *rows])


def _distance(path: Path, reference: Path) -> str:
    import numpy as np

    a, b = np.load(path), np.load(reference)
    if a.shape != b.shape:
        return f"shapes differ: {a.shape}, {b.shape}"
    return f"{np.abs(a - b).max():.1e}, relative {float(np.linalg.norm(a - b) / np.linalg.norm(b)):.1e}"


def comparison(engines: Sequence[Engine], results: Sequence[Result], folder: Path) -> str:
    """Encoder and texts of all against one in float32, NeMo where it ran; "" where none is in float32."""
    float32 = [index for index, engine in enumerate(engines) if engine.type == "f32"]
    if not float32 or len(engines) < 2:
        return ""
    reference = next((index for index in float32 if engines[index].kind == "nemo"), float32[0])
    wanted: dict[str, str] = results[reference]["texts"]
    rows = []
    for index, engine in enumerate(engines):
        if index == reference:
            continue
        texts = {head: text for head, text in results[index]["texts"].items() if head in wanted}
        verdicts = [
            f"{head} {'equal' if text == wanted[head] else 'DIFFERENT'}" for head, text in texts.items()
        ]
        distance = _distance(folder / f"{index}.npy", folder / f"{reference}.npy")
        rows.append(_line([engine.label, distance, ", ".join(verdicts)]))
    columns = (f"against {engines[reference].label}", "encoder, largest difference", "texts")
    return "\n".join([_header(columns), *rows, "", _agreement(engines, results, float32)])


def _agreement(engines: Sequence[Engine], results: Sequence[Result], float32: Sequence[int]) -> str:
    sentences = []
    for head in ("transducer", "ctc"):
        texts = {engines[i].name: results[i]["texts"][head] for i in float32 if head in results[i]["texts"]}
        if len(texts) > 1:
            verdict = "agree" if len(set(texts.values())) == 1 else "DIFFER"
            sentences.append(f"{head}: {', '.join(texts)} {verdict}")
    return "Float32 texts: " + ("; ".join(sentences) or "one engine only")
