"""``asr bench``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from asr.audio import display_name
from asr.bench import STAGES, Measurement, Times, measure, peak_memory
from asr.cli.console import write_stdout
from asr.cli.info import table
from asr.formats import dump_json

_NOISE = "(10 s of noise)"


def run(
    name: str,
    files: Sequence[str],
    *,
    decoder: str | None,
    threads: int | None,
    device: str,
    passes: int,
    as_json: bool,
) -> int:
    """Measure each file and print a table, or JSON."""
    import asr

    model = asr.load_model(name, device=device, n_threads=threads)
    rows = [(display_name(file), measure(model, file, decoder=decoder, passes=passes)) for file in files]
    if not rows:
        rows = [(_NOISE, measure(model, decoder=decoder, passes=passes))]
    memory = peak_memory()
    threads_used = model.backend.n_threads
    if as_json:
        report = {
            "model": model.name,
            "device": model.backend.device_name,
            "threads": threads_used,
            "kernels": model.kernels,
            "peak_memory_bytes": memory,
            "measurements": [{"file": file, **asdict(row)} for file, row in rows],
        }
        write_stdout(dump_json(report) + "\n")
        return 0
    device_name = model.backend.device_name + (f" ({model.kernels} kernels)" if model.kernels else "")
    peak = "unknown" if memory is None else f"{memory / 1e6:.0f} MB"
    write_stdout(
        f"{model.name}, {device_name}, {threads_used} threads; median / best of {passes} "
        f"passes in seconds; peak memory {peak}\n"
    )
    header = ("FILE", "LENGTH", *(stage.upper() for stage in STAGES), "TOTAL", "RTF")
    write_stdout(table([header, *(_cells(file, row) for file, row in rows)]))
    return 0


def _cells(file: str, row: Measurement) -> tuple[str, ...]:
    times = [*(row.stages[stage] for stage in STAGES), row.total]
    return (file, f"{row.duration:.1f} s", *map(_both, times), f"{row.real_time_factor:.4f}")


def _both(times: Times) -> str:
    return f"{times.median:.4f} / {times.best:.4f}"
