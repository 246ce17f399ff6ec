"""Make the golden data of tests/asr/test_tokenizer.py and tests/asr/test_timestamps.py with NeMo.

    pip install torch==2.13.0 "nemo-toolkit[asr]==2.7.3"
    python scripts/make_timestamp_cases.py

Trains small SentencePiece models with awkward vocabularies, draws random hypotheses over them with a fixed
seed, and records what NeMo's own decoding objects make of them: text, token, word and segment spans,
seconds and word confidences. Writes tests/asr/data/tokenizer_cases.json and timestamp_cases.json.
"""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from nemo.collections.asr.modules.rnnt import RNNTDecoder, RNNTJoint
from nemo.collections.asr.parts.submodules.ctc_decoding import CTCBPEDecoding, CTCBPEDecodingConfig
from nemo.collections.asr.parts.submodules.rnnt_decoding import RNNTBPEDecoding, RNNTBPEDecodingConfig
from nemo.collections.asr.parts.utils.rnnt_utils import Hypothesis
from nemo.collections.asr.parts.utils.timestamp_utils import process_timestamp_outputs
from nemo.collections.common.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer
from omegaconf import OmegaConf

DATA = Path(__file__).resolve().parents[1] / "tests" / "asr" / "data"
SEED = 20
TEXT_CASES = 60  # per vocabulary
SPAN_CASES = 30  # per vocabulary and head
GAP_CASES = 6  # of these, with a segment gap threshold

SENTENCES = (
    "The quick brown fox, jumps over the lazy dog. What is it? Don't stop! It's 25 dollars; (maybe) "
    '"quoted" text - nice: yes. Ünïcode naïve café 日本語 です。 end. Hello world how are you today '
    "1234567890"
)
COMMANDS = "one two three four five six seven eight nine zero rubout erase enter go stop help yes no"

# name -> (corpus words, trainer options). Marks inside, before and after letters; ▁ with and without a mark.
MARKS = ["▁,", "▁.", "...", "'s", "?!", "▁(", "▁▁"]
VOCABULARIES: dict[str, tuple[str, dict[str, Any]]] = {
    "punctuation": (SENTENCES, {"bos_id": -1, "eos_id": -1, "user_defined_symbols": MARKS}),
    "lower": (COMMANDS, {"bos_id": -1, "eos_id": -1, "vocab_size": 50}),
    "bytes": (
        SENTENCES,
        {
            "vocab_size": 380,
            "byte_fallback": True,
            "character_coverage": 0.98,
            "remove_extra_whitespaces": False,
            "user_defined_symbols": ["<EOU>", "▁▁", "▁?"],
            "control_symbols": ["<en-US>"],
            "pad_id": 3,
        },
    ),
    "wordpiece": (SENTENCES, {"bos_id": -1, "eos_id": -1, "user_defined_symbols": ["##ing", "##.", "[X]"]}),
}


def train(name: str, folder: Path) -> SentencePieceTokenizer:
    words, options = VOCABULARIES[name]
    rng = random.Random(name)
    corpus = folder / f"{name}.txt"
    lines = (" ".join(rng.choices(words.split(), k=rng.randint(3, 12))) for _ in range(2000))
    corpus.write_text("\n".join(lines), encoding="utf-8")
    defaults = {"vocab_size": 110, "model_type": "bpe", "character_coverage": 1.0, "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(folder / name),
        num_threads=1,
        minloglevel=2,
        **{**defaults, **options},
    )
    tokenizer = SentencePieceTokenizer(str(folder / f"{name}.model"))
    tokenizer.tokenizer.vocab_size = tokenizer.vocab_size  # NeMo's models do this to their tokenizers
    return tokenizer


def describe(name: str, tokenizer: SentencePieceTokenizer) -> dict[str, Any]:
    """What a model file stores of the vocabulary. User-defined pieces (4) are listed as normal (1)."""
    sp = tokenizer.tokenizer

    def kind(i: int) -> int:
        flags = ((sp.is_unknown, 2), (sp.is_control, 3), (sp.is_unused, 5), (sp.is_byte, 6))
        return next((value for test, value in flags if test(i)), 1)

    return {
        "pieces": [sp.id_to_piece(i) for i in range(sp.get_piece_size())],
        "types": [kind(i) for i in range(sp.get_piece_size())],
        "remove_extra_whitespaces": bool(VOCABULARIES[name][1].get("remove_extra_whitespaces", True)),
    }


def draw_ids(rng: random.Random, vocabulary: dict[str, Any], n: int) -> list[int]:
    """Random ids, with marks, digits, capitals, bytes, ▁, unknown and control pieces often among them."""
    pieces, types = vocabulary["pieces"], vocabulary["types"]
    everything = range(len(pieces))
    groups = [
        list(everything),
        [i for i in everything if types[i] == 1 and pieces[i].startswith("▁") and pieces[i].strip("▁")],
        [i for i in everything if pieces[i].strip("▁") in {*",.?!'-;:)(\""}],
        [i for i in everything if types[i] in (2, 3) or not pieces[i].strip("▁")],
        [i for i in everything if types[i] == 6] or list(everything),
    ]
    ids: list[int] = []
    while len(ids) < n:
        group = rng.choices(groups, weights=(4, 5, 4, 2, 1))[0]
        ids.append(rng.choice(group or list(everything)))
        if rng.random() < 0.1:
            ids.append(ids[-1])
    return ids[:n]


def transducer(tokenizer: SentencePieceTokenizer, durations: list[int], gap: int | None) -> RNNTBPEDecoding:
    vocab = tokenizer.vocab_size
    joint = RNNTJoint(
        {"encoder_hidden": 4, "pred_hidden": 4, "joint_hidden": 4, "activation": "relu"},
        num_classes=vocab,
        vocabulary=tokenizer.vocab,
        num_extra_outputs=len(durations),
    )
    config = OmegaConf.structured(RNNTBPEDecodingConfig())
    OmegaConf.set_struct(config, False)
    config.compute_timestamps = True
    config.segment_gap_threshold = gap
    if durations:
        config.model_type, config.durations = "tdt", durations
    prediction = {"pred_hidden": 4, "pred_rnn_layers": 1}
    return RNNTBPEDecoding(config, RNNTDecoder(prediction, vocab_size=vocab), joint, tokenizer)


def run_transducer(decoding: RNNTBPEDecoding, rng: random.Random, ids: list[int]) -> dict[str, Any]:
    tdt = bool(decoding.durations)
    frames, lengths, frame = [], [], rng.randint(0, 4)
    for _ in ids:
        length = rng.randint(0, 4) if tdt else 1
        frames.append(frame)
        lengths.append(length)
        frame += (length if tdt else 0) + rng.choice((0, 0, 1, 2, 7))
    hyp = Hypothesis(score=0.0, y_sequence=list(ids), timestamp=list(frames), token_duration=list(lengths))
    hyp = decoding.compute_rnnt_timestamps(decoding.decode_hypothesis([hyp])[0])
    return {"ids": ids, "frames": frames, "durations": lengths, **outcome(decoding, hyp, rng, ids)}


def ctc(tokenizer: SentencePieceTokenizer, gap: int | None) -> CTCBPEDecoding:
    config = OmegaConf.structured(CTCBPEDecodingConfig())
    config.compute_timestamps = True
    config.segment_gap_threshold = gap
    return CTCBPEDecoding(config, tokenizer)


def run_ctc(decoding: CTCBPEDecoding, rng: random.Random, wanted: list[int]) -> dict[str, Any]:
    """Through the greedy CTC decoder itself: a path of best tokens a frame, as one-hot log-probabilities."""
    blank = decoding.blank_id
    path = [blank] * rng.choice((0, 0, 1, 5))
    for token in wanted:
        path += [token] * rng.choice((1, 1, 2, 4)) + [blank] * rng.choice((0, 0, 1, 6))
    path = path or [blank]
    log_probs = torch.full((1, len(path), blank + 1), -20.0)
    log_probs[0, torch.arange(len(path)), torch.tensor(path)] = 0.0
    hyp = decoding.ctc_decoder_predictions_tensor(
        log_probs, torch.tensor([len(path)]), return_hypotheses=True
    )[0]
    ids, frames, lengths = [], [], []
    frame = 0
    for token, run in itertools.groupby(path):
        length = len(list(run))
        if token != blank:
            ids.append(token)
            frames.append(frame)
            lengths.append(length)
        frame += length
    return {"ids": ids, "frames": frames, "durations": lengths, **outcome(decoding, hyp, rng, ids)}


def outcome(
    decoding: RNNTBPEDecoding | CTCBPEDecoding, hyp: Hypothesis, rng: random.Random, ids: list[int]
) -> dict[str, Any]:
    times = process_timestamp_outputs([hyp], subsampling_factor=8, window_stride=0.01)[0].timestamp
    confidence = [round(rng.random(), 3) for _ in ids]
    try:
        word_confidence = decoding._aggregate_token_confidence_subwords_sentencepiece(
            hyp.text.split(), confidence, ids
        )
    except RuntimeError:  # NeMo's own count of words and that of the text differ
        word_confidence = None
    return {
        "confidence": confidence,
        "text": hyp.text,
        "tokens": [[int(t["start_offset"]), int(t["end_offset"])] for t in times["char"]],
        "words": [[w["word"], int(w["start_offset"]), int(w["end_offset"])] for w in times["word"]],
        "seconds": [[float(w["start"]), float(w["end"])] for w in times["word"]],
        "segments": [[s["segment"], int(s["start_offset"]), int(s["end_offset"])] for s in times["segment"]],
        "word_confidence": word_confidence,
    }


def fixed_sequences(vocabulary: dict[str, Any]) -> list[list[int]]:
    """Short sequences that must be among the cases whatever the random draw."""
    pieces = vocabulary["pieces"]
    first_of = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
    wanted = [
        [], ["."], [".", "?"], [".", "▁t"], ["▁t", "."], ["▁"], ["▁", "."], ["▁t", "▁", "."],
        ["▁t", "▁", "▁t"], ["<unk>"], ["<unk>", "e"], ["▁t", "<unk>", "."], ["▁t", "▁▁", "."],
        ["<unk>", "▁▁", "."], ["▁▁", "e"], ["1", "2", "2"], ["▁t", "'s"],
        ["▁t", "...", "▁t"], ["▁t", "▁,", "e"], ["e", "e", "▁t"],
    ]  # fmt: skip
    return [[first_of[p] for p in case] for case in wanted if all(p in first_of for p in case)]


def write(path: Path, head: dict[str, Any], cases: list[dict[str, Any]]) -> None:
    """One case a line, so that a change shows in a diff."""
    parts = [f'"{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in head.items()]
    rows = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    parts.append(f'"cases": [\n{rows}\n]')
    path.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    print(f"{path}: {len(cases)} cases, {path.stat().st_size / 1024:.0f} KB")


def main() -> None:
    rng = random.Random(SEED)
    vocabularies: dict[str, Any] = {}
    text_cases: list[dict[str, Any]] = []
    span_cases: list[dict[str, Any]] = []
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        tokenizers = {name: train(name, Path(folder)) for name in VOCABULARIES}
    for name, tokenizer in tokenizers.items():
        vocabularies[name] = vocabulary = describe(name, tokenizer)
        rnnt = transducer(tokenizer, [], None)
        vocabularies[name]["punctuation"] = "".join(sorted(rnnt.supported_punctuation))
        for _ in range(TEXT_CASES):
            ids = draw_ids(rng, vocabulary, rng.randint(0, 9))
            decoded = tokenizer.tokenizer.decode(ids)
            text = rnnt.decode_tokens_to_str_with_strip_punctuation(ids)
            text_cases.append({"vocabulary": name, "ids": ids, "decoded": decoded, "text": text})
        fixed = fixed_sequences(vocabulary)
        for head in ("rnnt", "tdt", "ctc"):
            for n in range(SPAN_CASES + len(fixed)):
                gap = 3 if len(fixed) <= n < len(fixed) + GAP_CASES else None
                ids = fixed[n] if n < len(fixed) else draw_ids(rng, vocabulary, rng.randint(1, 14))
                try:
                    if head == "ctc":
                        case = run_ctc(ctc(tokenizer, gap), rng, ids)
                    else:
                        durations = [0, 1, 2, 3, 4] if head == "tdt" else []
                        case = run_transducer(transducer(tokenizer, durations, gap), rng, ids)
                except IndexError:  # NeMo fails on a mark after a word without text
                    failures += 1
                    continue
                span_cases.append({"vocabulary": name, "head": head, "gap": gap, **case})
    print(f"{failures} drawn cases on which NeMo itself fails were left out")
    DATA.mkdir(parents=True, exist_ok=True)
    write(DATA / "tokenizer_cases.json", {"vocabularies": vocabularies}, text_cases)
    write(DATA / "timestamp_cases.json", {}, span_cases)


if __name__ == "__main__":
    main()
