"""The commands and their options. What they do is in the modules beside this one, loaded when needed."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

app = typer.Typer(
    name="asr",
    help="Speech recognition with NVIDIA's Parakeet models, on this machine.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Timestamps(str, Enum):
    """What a line of timestamped text holds."""

    word = "word"
    segment = "segment"
    token = "token"


class Decoder(str, Enum):
    """The decoding heads that a model may have."""

    tdt = "tdt"
    rnnt = "rnnt"
    ctc = "ctc"


class WeightType(str, Enum):
    """How converted weights are stored."""

    f32 = "f32"
    f16 = "f16"
    q8_0 = "q8_0"


def _version(shown: bool) -> None:
    if shown:
        import asr

        typer.echo(f"asr {asr.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Speech recognition with NVIDIA's Parakeet models, on this machine."""


@app.command()
def transcribe(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Audio files; - is standard input.", show_default=False),
    ],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Model: a .gguf or .nemo file, or a known name.")
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format", "-f", metavar="LIST", help="txt, srt, vtt, json, csv, tsv; several with commas. [txt]"
        ),
    ] = None,
    output_dir: Annotated[
        str | None,
        typer.Option("--output-dir", "-o", metavar="DIR", help="Write files here, not to standard output."),
    ] = None,
    timestamps: Annotated[
        Timestamps | None, typer.Option(help="In txt: a line for each of these, with its times.")
    ] = None,
    decoder: Annotated[
        Decoder | None, typer.Option(help="Head to decode with; by default the model's transducer.")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=1024, metavar="N", help="Processor threads; by default what suits the machine."
        ),
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="Where to compute: see 'asr devices'.")] = "cpu",
    channel: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Use channel N (from 1); by default the mean of all."),
    ] = None,
    min_duration: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="S", help="Pad shorter clips with silence to this many seconds, as NeMo."
        ),
    ] = 1.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes: errors only.")] = False,
) -> int:
    """Write down what is said in audio files.

    Without --output-dir one format goes to standard output; several files each under a line
    "==> NAME <==" (JSON: one array, its objects with a key "file").
    """
    from asr.cli.transcribe import Request, run

    return run(
        Request(
            files=tuple(files),
            model=model,
            formats=tuple(formats or ()),
            output_dir=output_dir,
            timestamps=timestamps.value if timestamps else None,
            decoder=decoder.value if decoder else None,
            threads=threads,
            device=device,
            channel=channel,
            min_duration=min_duration,
            quiet=quiet,
        )
    )


@app.command()
def convert(
    source: Annotated[str, typer.Argument(metavar="MODEL.nemo", help="A NeMo checkpoint.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="MODEL.gguf", help="The file to write.")],
    weight_type: Annotated[
        WeightType, typer.Option("--type", help="Type of the large weights in the file.")
    ] = WeightType.f32,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors only.")] = False,
) -> int:
    """Convert a NeMo checkpoint of the Parakeet family to GGUF."""
    from asr.cli.convert import run

    return run(source, output, weight_type.value, quiet)


@app.command()
def bench(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A .gguf or .nemo file, or a known name.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[AUDIO]...", help="Recordings; without any, ten seconds of noise."),
    ] = None,
    decoder: Annotated[Decoder | None, typer.Option(help="Head to decode with.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, metavar="N", help="Processor threads.")
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="Where to compute: see 'asr devices'.")] = "cpu",
    passes: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Passes over each recording that count.")
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Measure how long a model takes, stage by stage, and its memory."""
    from asr.cli.bench import run

    return run(
        model,
        files or (),
        decoder=decoder.value if decoder else None,
        threads=threads,
        device=device,
        passes=passes,
        as_json=as_json,
    )


@app.command()
def info(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A .gguf or .nemo file, or a known name.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Show what a model is: architecture, heads, vocabulary, types, licence."""
    from asr.cli.info import show_model

    return show_model(model, as_json)


@app.command()
def devices() -> int:
    """List the devices that can compute."""
    from asr.cli.info import show_devices

    return show_devices()
