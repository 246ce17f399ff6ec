#!/usr/bin/env python3
"""Make checkpoints of the published sizes with random weights, to measure speed and memory with.

Needs an environment with ``torch==2.13.0`` and ``nemo-toolkit[asr]==2.7.3``.

    python scripts/make_random_checkpoints.py tdt_ctc-110m -o checkpoints --audio clip.flac

The architectures are those of NVIDIA's parakeet-tdt_ctc-110m and parakeet-tdt-0.6b-v2. The weights are
random, so the text means nothing, but the heads are calibrated on ``--audio`` to emit tokens at the rate of
speech: a decoder's time depends on how many steps it takes. A 0.6 B checkpoint needs 2.5 GB of disk and
about 6 GB of memory.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from fixtures.recipes import Recipe

FloatArray = npt.NDArray[np.float32]

VOCAB_SIZE = 1024
FRAMES_PER_SECOND = 12.5
TOKENS_PER_SECOND = 4.0  # of English speech with pieces of this size
# Shares of the CTC frames and of the transducer's steps on which blank wins, and of the durations of its
# tokens: with these a head emits about TOKENS_PER_SECOND.
CTC_BLANK_SHARE = 0.68
TDT_BLANK_SHARE = 0.4
DURATION_SHARES = (0.0, 0.5, 0.27, 0.13, 0.1)


@dataclass(frozen=True)
class Published:
    """A published architecture: the recipe of its small relative, and its depth."""

    recipe: Recipe
    n_layers: int


def _recipe(name: str, heads: tuple[str, ...], n_mels: int, d_model: int, bias: bool, layers: int) -> Recipe:
    return Recipe(
        name,
        heads,
        n_mels,
        "per_feature",
        d_model,
        n_heads=8,
        kernel=9,
        conv_norm="batch_norm",
        sub_channels=256,
        use_bias=bias,
        lstm_layers=layers,
        pred_hidden=640,
        joint_hidden=640,
        blank_share=TDT_BLANK_SHARE,
        zero_duration_share=0.0,
        gzip=False,
    )


CHECKPOINTS = {
    "tdt_ctc-110m": Published(_recipe("tdt_ctc-110m", ("tdt", "ctc"), 80, 512, True, 1), 17),
    "tdt-0.6b-v2": Published(_recipe("tdt-0.6b-v2", ("tdt",), 128, 1024, False, 2), 24),
}


def _sentences(seed: int = 11, lines: int = 6000) -> list[str]:
    """Sentences of made-up words: text with enough different syllables for a thousand pieces."""
    rng = random.Random(seed)
    onsets = ["", "b", "br", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "w"]
    ends = ["", "", "", "l", "m", "n", "nd", "r", "s", "t"]
    syllables = [onset + vowel + end for onset in onsets for vowel in "aeiou" for end in ends]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(3000)]
    out = []
    for _ in range(lines):
        chosen = [rng.choice(words) if rng.random() < 0.95 else str(rng.randrange(2000)) for _ in range(9)]
        comma = rng.choice([",", ""])
        text = " ".join(chosen[:4]) + comma + " " + " ".join(chosen[4:])
        out.append(text.capitalize() + rng.choice([".", ".", "?", "!"]))
    return out


def _calibrate_transducer(model: Any, recipe: Recipe, encoded: FloatArray) -> Any:
    """Move blank and the durations until decoding shows the wanted shares and rate; returns its census.

    What a token changes for the steps after it is chaotic, so the best of a number of tries is kept.
    """
    from fixtures import lively
    from fixtures.build import DURATIONS

    bias = model.joint.joint_net[-1].bias
    n_tokens = model.joint.num_classes_with_blank - model.joint.num_extra_outputs
    bias[n_tokens] -= 20.0  # duration 0: practically never
    wanted = np.array(DURATION_SHARES)
    best_error, best_bias, best_census = float("inf"), bias.clone(), None
    for step in 8.0 * 0.93 ** np.arange(40):
        census = lively.census_transducer(model, recipe, encoded)
        blank_error = census.blanks / census.steps - TDT_BLANK_SHARE
        got = np.array([census.durations.count(d) for d in DURATIONS]) / max(1, len(census.durations))
        rate = len(census.ids) / (len(encoded) / FRAMES_PER_SECOND)
        error = abs(blank_error) + np.abs(got - wanted).max() + abs(rate / TOKENS_PER_SECOND - 1)
        if error < best_error:
            best_error, best_bias, best_census = error, bias.clone(), census
        bias[n_tokens - 1] -= step * blank_error
        for index in range(1, len(DURATIONS)):
            bias[n_tokens + index] += step * float(wanted[index] - got[index])
    bias.copy_(best_bias)
    return best_census


def _describe(head: str, census: Any, n_frames: int) -> str:
    seconds = n_frames / FRAMES_PER_SECOND
    most = max((census.ids.count(i) for i in set(census.ids)), default=0)
    durations = {d: census.durations.count(d) for d in sorted(set(census.durations))}
    return (
        f"{head}: {len(census.ids) / seconds:.1f} tokens a second, {len(set(census.ids))} different ones of "
        f"{len(census.ids)}, the most frequent {most} times; "
        f"blank on {census.blanks} of {census.steps} steps; "
        f"durations {durations}; closest decision by {census.margin:.1e}"
    )


def make(name: str, folder: Path, audio: list[FloatArray], seed: int) -> Path:
    """Write ``folder/name.nemo`` and say on standard error how the heads behave on ``audio``."""
    import torch
    from fixtures import build, lively, liven, reference, tokenizer

    published = CHECKPOINTS[name]
    recipe = published.recipe
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        pieces = tokenizer.train(Path(scratch), _sentences(), VOCAB_SIZE)
        model = build.build(recipe, pieces, seed, published.n_layers)
        count = sum(p.numel() for p in model.parameters())
        print(f"{name}: {count / 1e6:.1f} M parameters", file=sys.stderr)
        encoded = np.concatenate([reference.run_encoder(model, clip).encoder for clip in audio])
        frames = torch.from_numpy(encoded)
        if "ctc" in recipe.heads:
            liven.liven_ctc(model, frames, CTC_BLANK_SHARE)
            census = lively.census_ctc(reference.ctc_log_probs(model, encoded))
            print(_describe("ctc", census, len(encoded)), file=sys.stderr)
        liven.liven_transducer(model, recipe, frames, seed)
        census = _calibrate_transducer(model, recipe, encoded)
        print(_describe("tdt", census, len(encoded)), file=sys.stderr)
        target = folder / f"{name}.nemo"
        model.save_to(str(target))
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", choices=CHECKPOINTS, help=", ".join(CHECKPOINTS))
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder, made when missing")
    parser.add_argument(
        "--audio", type=Path, nargs="+", required=True, help="speech, 16 kHz mono: calibrates the heads"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    import soundfile as sf
    from nemo.utils import logging

    logging.setLevel(logging.ERROR)
    clips = []
    for path in arguments.audio:
        samples, rate = sf.read(path, dtype="float32")
        if rate != 16000 or samples.ndim != 1:
            parser.error(f"{path} is not 16 kHz mono")
        clips.append(samples)
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        print(make(name, arguments.output, clips, arguments.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
