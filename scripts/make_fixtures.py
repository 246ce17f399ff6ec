#!/usr/bin/env python3
"""Make the tiny NeMo models of tests/fixtures and store what NeMo computes with them.

Needs an environment with ``torch==2.13.0`` and ``nemo-toolkit[asr]==2.7.3``; the tests need neither.

    python scripts/make_fixtures.py                 # all fixtures
    python scripts/make_fixtures.py ctc tdt-ctc     # some
    python scripts/make_fixtures.py --check tdt-ctc # make it again elsewhere and compare

Layout: ``tests/fixtures/waveforms/{short,medium,long}.flac``, ``tests/fixtures/mel/{n_mels}-{normalize}.npz``
(one array [T, n_mels] a clip) and for each fixture ``model.nemo``, ``reference.npz`` and
``reference.json``. Array names are ``{clip}/{preset}/{what}``, ``preset`` being the index into the
recipe's contexts and ``what`` one of ``subsampling``, ``layer0``, ``layer1``, ``encoder``, ``log_probs``.
To keep the files small, layers are stored for the medium clip, subsampling and log-probabilities for the
first preset, and the long clip's mel for two of the four front ends, only.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures"
LONG_MELS = ("80-per_feature", "128-NA")
Arrays = dict[str, npt.NDArray[np.float32]]


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _calibrated(recipe: Any, tokenizer: Path, clips: Arrays, seed: int) -> Any:
    import torch
    from fixtures import build, liven, reference

    model = build.build(recipe, tokenizer, seed)
    encoded = np.concatenate([reference.run_encoder(model, clip).encoder for clip in clips.values()])
    frames = torch.from_numpy(encoded)
    if "ctc" in recipe.heads:
        liven.liven_ctc(model, frames, 0.5)
    if recipe.transducer:
        liven.liven_transducer(model, recipe, frames, seed)
    return model


def _reference(model: Any, recipe: Any, clips: Arrays) -> tuple[Arrays, Arrays, dict[str, Any], list[str]]:
    """Mel per clip, arrays, hypotheses, and the reasons (if any) why the fixture is not good enough."""
    from fixtures import lively, reference

    mels: Arrays = {}
    arrays: Arrays = {}
    hypotheses: dict[str, Any] = {}
    faults: list[str] = []
    for preset, context in enumerate(recipe.contexts):
        model.encoder.set_default_att_context_size(list(context))
        # The longest clip first: that is where most seeds are found wanting.
        for clip, audio in reversed(clips.items()):
            key = f"{clip}/{preset}"
            states = reference.run_encoder(model, audio)
            mels[clip] = states.mel
            arrays[f"{key}/encoder"] = states.encoder
            if preset == 0:
                arrays[f"{key}/subsampling"] = states.subsampling
            if clip == "medium":
                arrays |= {f"{key}/layer{i}": layer for i, layer in enumerate(states.layers)}
            for head in recipe.heads:
                if head == "ctc":
                    log_probs = reference.ctc_log_probs(model, states.encoder)
                    if preset == 0:
                        arrays[f"{key}/log_probs"] = log_probs
                    result = reference.decode_ctc(model, log_probs)
                    census = lively.census_ctc(log_probs)
                else:
                    result = reference.decode_transducer(model, states.encoder)
                    census = lively.census_transducer(model, recipe, states.encoder)
                if census.margin < lively.MIN_MARGIN:
                    faults.append(f"{key} {head}: a decision by {census.margin:.1e}")
                elif any(getattr(census, what) != result[what] for what in ("ids", "frames", "durations")):
                    raise AssertionError(f"{recipe.name} {key} {head}: NeMo and the plain loop disagree")
                if clip == "long" and preset == 0:
                    faults += [f"{head}: {fault}" for fault in lively.faults(recipe, head, census, result)]
                result["blank_share"] = round(census.blanks / census.steps, 3)
                result["max_symbols_reached"] = census.max_symbols_reached
                hypotheses[f"{key}/{head}"] = result
            if faults:
                return mels, arrays, hypotheses, faults
    model.encoder.set_default_att_context_size(list(recipe.contexts[0]))
    return mels, arrays, hypotheses, faults


def make(name: str, tokenizer: Path, folder: Path, clips: Arrays, first_seed: int = 1) -> dict[str, Any]:
    """Build fixture ``name`` and write it to ``folder``; returns the content of its ``reference.json``.

    Seeds are tried from ``first_seed`` until the heads are lively and no decision is a near tie.
    """
    import nemo
    import torch
    from fixtures import build
    from fixtures.recipes import RECIPES

    recipe = RECIPES[name]
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    for seed in range(first_seed, first_seed + 200):
        with torch.no_grad():
            model = _calibrated(recipe, tokenizer, clips, seed)
            mels, arrays, hypotheses, faults = _reference(model, recipe, clips)
        if not faults:
            break
        _log(f"{name}: seed {seed}: {'; '.join(faults)}")
    else:
        raise RuntimeError(f"no seed makes {name} lively")
    build.save(model, target / "model.nemo", recipe.gzip)
    np.savez_compressed(target / "reference.npz", **arrays)
    mel_name = f"{recipe.n_mels}-{recipe.normalize}"
    content = {
        "nemo": nemo.__version__,
        "torch": torch.__version__.split("+")[0],
        "seed": seed,
        "mel": mel_name,
        "recipe": asdict(recipe),
        "hypotheses": hypotheses,
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    text = re.sub(r'"(?=(short|medium|long)/\d+/)', '\n"', text)  # a line a hypothesis, for readable diffs
    (target / "reference.json").write_text(text + "\n", encoding="utf-8")
    (folder / "mel").mkdir(exist_ok=True)
    if mel_name not in LONG_MELS:
        mels.pop("long", None)
    np.savez_compressed(folder / "mel" / f"{mel_name}.npz", **mels)
    return content


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested JSON as one level, for a comparison that names the place."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return {path: value}
    return {k: v for key, item in items for k, v in _flat(item, f"{path}/{key}").items()}


def _weights(path: Path) -> Arrays:
    import tarfile

    import torch

    with tarfile.open(path) as archive:
        member = archive.extractfile("./model_weights.ckpt")
        state = torch.load(member, map_location="cpu", weights_only=True)
    return {name: tensor.numpy() for name, tensor in state.items()}


def differences(made: Path, stored: Path, mel: str) -> list[str]:
    """Differences between two folders of the same fixture, numbers within 1e-4."""
    found = []
    pairs = [
        (_weights(made / "model.nemo"), _weights(stored / "model.nemo"), "model.nemo"),
        *(
            (dict(np.load(a)), dict(np.load(b)), b.name)
            for a, b in (
                (made / "reference.npz", stored / "reference.npz"),
                (made.parent / "mel" / f"{mel}.npz", stored.parent / "mel" / f"{mel}.npz"),
            )
        ),
    ]
    for new, old, file in pairs:
        if new.keys() != old.keys():
            found.append(f"{file}: arrays differ: {sorted(new.keys() ^ old.keys())}")
        for key in new.keys() & old.keys():
            if new[key].shape != old[key].shape or not np.allclose(new[key], old[key], rtol=1e-4, atol=1e-4):
                found.append(f"{file}: {key}")
    new_json, old_json = (
        _flat(json.loads((f / "reference.json").read_text("utf-8"))) for f in (made, stored)
    )
    if new_json.keys() != old_json.keys():
        found.append(f"reference.json: entries differ: {sorted(new_json.keys() ^ old_json.keys())[:5]}")
    for key in new_json.keys() & old_json.keys():
        new_value, old_value = new_json[key], old_json[key]
        same = abs(new_value - old_value) < 1e-4 if isinstance(new_value, float) else new_value == old_value
        if not same:
            found.append(f"reference.json: {key}: {new_value!r}, stored {old_value!r}")
    return found


def check(name: str, fixtures: Path = FIXTURES) -> list[str]:
    """Make ``name`` in a temporary folder and compare with the stored one; empty when they agree."""
    from fixtures import tokenizer, waveforms

    clips = waveforms.read_or_make(fixtures / "waveforms")
    seed = json.loads((fixtures / name / "reference.json").read_text("utf-8"))["seed"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        content = make(name, tokenizer.train(folder / "tokenizer"), folder, clips, seed)
        return differences(folder / name, fixtures / name, content["mel"])


def _summary(name: str, content: dict[str, Any], folder: Path) -> str:
    size = sum(f.stat().st_size for f in (folder / name).iterdir())
    heads = []
    for key, result in content["hypotheses"].items():
        clip, preset, head = key.split("/")
        if clip == "long" and preset == "0":
            heads.append(
                f"{head}: {len(result['ids'])} tokens ({len(set(result['ids']))} different), "
                f"blank {result['blank_share']:.2f}, durations {sorted(set(result['durations']))}, "
                f"max_symbols reached {result['max_symbols_reached']}x, "
                f"{len(result['words'])} words, {len(result['segments'])} segments"
            )
    return f"{name}: seed {content['seed']}, {size / 1e3:.0f} kB; " + "; ".join(heads)


def main() -> int:
    from fixtures.recipes import RECIPES

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"fixtures (default all): {', '.join(RECIPES)}"
    )
    parser.add_argument("--check", metavar="NAME", choices=RECIPES, help="compare with the stored fixture")
    parser.add_argument("-o", "--output", type=Path, default=FIXTURES, help="folder (default tests/fixtures)")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(RECIPES)
    if unknown:
        parser.error(f"no such fixture: {', '.join(sorted(unknown))}")

    import torch
    from fixtures import tokenizer, waveforms
    from nemo.utils import logging

    logging.setLevel(logging.ERROR)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if arguments.check:
        found = check(arguments.check, arguments.output)
        print("\n".join(found) or f"{arguments.check}: equal")
        return 1 if found else 0
    clips = waveforms.read_or_make(arguments.output / "waveforms")
    with tempfile.TemporaryDirectory() as scratch:
        folder = tokenizer.train(Path(scratch) / "tokenizer")
        for name in arguments.names or RECIPES:
            _log(_summary(name, make(name, folder, arguments.output, clips), arguments.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
