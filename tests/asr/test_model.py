"""A loaded model: the same answer by every way in, for any number of threads, and what it refuses."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile as sf

import asr
from asr import model as model_module

Array = npt.NDArray[np.float32]
ModelOf = Callable[[str, int], "asr.Model"]


@pytest.fixture(scope="module")
def bundled() -> asr.Model:
    return asr.load_model(n_threads=1)


@pytest.fixture
def hybrid(tiny_model: ModelOf) -> asr.Model:
    return tiny_model("tdt-ctc", 0)


# Threads


@pytest.mark.parametrize("name", ["bundled", "tdt-ctc", "rnnt-ctc-streaming"])
def test_two_threads_give_the_same(
    name: str, gguf_path: Callable[[str], Path], clips: dict[str, Array]
) -> None:
    path = None if name == "bundled" else gguf_path(name)
    one, two = (asr.load_model(path, n_threads=n) for n in (1, 2))
    for clip in (clips["short"], clips["medium"]):
        assert np.array_equal(one.log_mel(clip), two.log_mel(clip))
        assert np.array_equal(one.encode(clip), two.encode(clip))
    for decoder in one.decoders:
        assert one.transcribe(clip, decoder=decoder) == two.transcribe(clip, decoder=decoder)


@pytest.mark.parametrize("n_threads", [3, 5])
def test_odd_numbers_of_threads_give_the_same(
    n_threads: int, gguf_path: Callable[[str], Path], clips: dict[str, Array]
) -> None:
    """More threads than cores wait for each other at every node, for milliseconds: one short clip."""
    one, many = (asr.load_model(gguf_path("tdt-ctc"), n_threads=1) for _ in range(2))
    many.backend.set_n_threads(n_threads)  # load_model would not go beyond the CPUs that there are
    clip = clips["short"]
    assert np.array_equal(one.log_mel(clips["medium"]), many.log_mel(clips["medium"]))
    assert np.array_equal(one.encode(clip), many.encode(clip))
    assert one.transcribe(clip, min_duration=0) == many.transcribe(clip, min_duration=0)


def test_one_model_from_several_threads(bundled: asr.Model, clips: dict[str, Array]) -> None:
    jobs = [(name, decoder) for name in clips for decoder in bundled.decoders]
    expected = {job: bundled.transcribe(clips[job[0]], decoder=job[1]) for job in jobs}
    encoded = bundled.encode(clips["medium"])
    wrong: list[object] = []
    finished: list[int] = []

    def work(seed: int) -> None:
        for index in np.random.default_rng(seed).permutation(len(jobs)):
            name, decoder = jobs[index]
            if bundled.transcribe(clips[name], decoder=decoder) != expected[name, decoder]:
                wrong.append((name, decoder))
        if not np.array_equal(bundled.encode(clips["medium"]), encoded):
            wrong.append("encode")
        finished.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(finished) == [0, 1, 2]
    assert not wrong


# Ways in


def test_path_file_bytes_and_array_agree(hybrid: asr.Model, clips: dict[str, Array], tmp_path: Path) -> None:
    clip = clips["medium"]
    path = tmp_path / "clip.wav"
    sf.write(path, clip, 16000, subtype="FLOAT")
    expected = hybrid.transcribe(clip)
    assert expected.tokens
    assert hybrid.transcribe(path) == expected
    assert hybrid.transcribe(str(path)) == expected
    assert hybrid.transcribe(path.read_bytes()) == expected
    assert hybrid.transcribe(io.BytesIO(path.read_bytes())) == expected
    with path.open("rb") as file:
        assert hybrid.transcribe(file) == expected
    assert hybrid.transcribe(clip.astype(np.float64)) == expected
    assert np.array_equal(hybrid.encode(path), hybrid.encode(clip))


def test_lists_and_progress(hybrid: asr.Model, clips: dict[str, Array]) -> None:
    calls: list[tuple[int, int]] = []
    several = hybrid.transcribe(
        [clips["medium"], clips["short"]], progress=lambda done, total: calls.append((done, total))
    )
    assert several == [hybrid.transcribe(clips["medium"]), hybrid.transcribe(clips["short"])]
    assert calls == [(1, 2), (2, 2)]
    assert hybrid.transcribe((clips["short"],)) == several[1:]
    assert hybrid.transcribe([]) == []


def test_a_list_stops_at_the_first_error(hybrid: asr.Model, clips: dict[str, Array]) -> None:
    calls: list[int] = []
    with pytest.raises(asr.AudioError):
        hybrid.transcribe(
            [clips["short"], np.zeros(3, np.float32), clips["short"]],
            progress=lambda done, total: calls.append(done),
        )
    assert calls == [1]


def test_sample_rate_of_an_array(hybrid: asr.Model, clips: dict[str, Array], tmp_path: Path) -> None:
    clip = clips["medium"][::2].copy()
    path = tmp_path / "8k.wav"
    sf.write(path, clip, 8000, subtype="FLOAT")
    at_8k = hybrid.transcribe(clip, sample_rate=8000)
    assert at_8k == hybrid.transcribe(path)
    assert at_8k.duration == pytest.approx(len(clip) / 8000, abs=1e-3)
    assert hybrid.transcribe(clip).duration == pytest.approx(len(clip) / 16000)
    with pytest.raises(asr.AsrError):
        hybrid.transcribe(clip, sample_rate=0)


@pytest.mark.parametrize("n", [160, 161, 319, 1000])
@pytest.mark.parametrize("name", ["tdt-ctc", "rnnt", "ctc-causal", "rnnt-ctc-streaming"])
def test_very_short_clips(n: int, name: str, tiny_model: ModelOf, clips: dict[str, Array]) -> None:
    model = tiny_model(name, 0)
    clip = clips["medium"][20000 : 20000 + n]
    assert model.encode(clip).shape == (max(1, model.encode(clip).shape[0]), model.config.encoder.d_model)
    for decoder in model.decoders:
        for min_duration in (0.0, 1.0):
            transcript = model.transcribe(clip, decoder=decoder, min_duration=min_duration)
            assert transcript.duration == pytest.approx(n / 16000)


def test_too_short(hybrid: asr.Model) -> None:
    with pytest.raises(asr.AudioError):
        hybrid.transcribe(np.full(159, 0.1, np.float32))


@pytest.mark.parametrize("name", ["bundled", "tdt-ctc", "rnnt", "ctc"])
@pytest.mark.parametrize("n", [160, 16000, 100_000])
def test_silence_gives_nothing(name: str, n: int, tiny_model: ModelOf, bundled: asr.Model) -> None:
    model = bundled if name == "bundled" else tiny_model(name, 0)
    for decoder in model.decoders:
        transcript = model.transcribe(np.zeros(n, np.float32), decoder=decoder)
        assert (transcript.text, transcript.tokens, transcript.words, transcript.segments) == ("", (), (), ())
        assert transcript.duration == n / 16000
        assert transcript.decoder == decoder


@pytest.mark.parametrize("name", ["tdt-ctc", "rnnt-2-layers", "ctc", "tdt-2-layers"])
def test_padded_times_are_on_the_clips_clock(name: str, tiny_model: ModelOf, clips: dict[str, Array]) -> None:
    model = tiny_model(name, 0)
    clip = clips["short"]
    duration = len(clip) / 16000
    seen = 0
    for decoder in model.decoders:
        transcript = model.transcribe(clip, decoder=decoder)
        assert transcript.duration == pytest.approx(duration)
        for item in (*transcript.tokens, *transcript.words, *transcript.segments):
            assert 0 <= item.start <= item.end <= duration
        padded = np.pad(clip, ((16000 - len(clip)) // 2, (16000 - len(clip) + 1) // 2))
        by_hand = model.transcribe(padded, decoder=decoder, min_duration=0)
        assert transcript.text == by_hand.text
        assert [t.frame for t in transcript.tokens] == [t.frame for t in by_hand.tokens]
        shift = (16000 - len(clip)) // 2 / 16000
        for moved, there in zip(transcript.tokens, by_hand.tokens, strict=True):
            assert moved.start == pytest.approx(min(max(there.start - shift, 0), duration), abs=1e-9)
        seen += len(transcript.tokens)
    assert seen


def test_min_duration_zero_takes_the_clip_as_it_is(hybrid: asr.Model, clips: dict[str, Array]) -> None:
    last_frame = len(hybrid.encode(clips["short"])) - 1
    tokens = hybrid.transcribe(clips["short"], decoder="ctc", min_duration=0).tokens
    assert all(token.frame <= last_frame for token in tokens)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(asr.AsrError, match="min_duration"):
            hybrid.transcribe(clips["short"], min_duration=wrong)


# Cancelling


def test_cancel_before_and_between(hybrid: asr.Model, clips: dict[str, Array]) -> None:
    event = threading.Event()
    done: list[int] = []

    def progress(count: int, total: int) -> None:
        done.append(count)
        event.set()

    with pytest.raises(asr.Cancelled):
        hybrid.transcribe([clips["short"]] * 3, cancel=event, progress=progress)
    assert done == [1]
    with pytest.raises(asr.Cancelled):
        hybrid.transcribe(clips["short"], cancel=event)
    assert hybrid.transcribe(clips["short"]).duration > 0


def test_cancel_while_it_works(bundled: asr.Model, clips: dict[str, Array]) -> None:
    class AfterTheStart:
        """Set from the second question on, which is asked while the encoder runs."""

        asked = 0

        def is_set(self) -> bool:
            self.asked += 1
            return self.asked > 1

    signal = AfterTheStart()
    before = bundled.decoder_backend.graphs_run
    with pytest.raises(asr.Cancelled):
        bundled.transcribe(np.tile(clips["long"], 3), cancel=signal)
    assert signal.asked == 2
    assert bundled.decoder_backend.graphs_run == before
    assert bundled.transcribe(clips["medium"]) == bundled.transcribe(clips["medium"])


# Refusals and facts


def test_unknown_attention_context(gguf_path: Callable[[str], Path], tiny_model: ModelOf) -> None:
    known = tiny_model("rnnt-ctc-streaming", 0).config.encoder.att_contexts
    with pytest.raises(asr.AsrError, match=r"\[7, 77\]") as caught:
        asr.load_model(gguf_path("rnnt-ctc-streaming"), n_threads=1, att_context_size=(7, 77))
    assert all(str(list(context)) in str(caught.value) for context in known)


def test_missing_head(tiny_model: ModelOf, clips: dict[str, Array]) -> None:
    model = tiny_model("rnnt", 0)
    for decoder in ("ctc", "tdt", "beam"):
        with pytest.raises(asr.DecoderError, match=f"'{decoder}'.*it has: rnnt"):
            model.transcribe(clips["short"], decoder=decoder)
    with pytest.raises(asr.DecoderError, match="no CTC head"):
        model.log_probs(clips["short"])


def test_unknown_device() -> None:

    with pytest.raises(asr.DeviceError, match="no device 'TPU'"):
        asr.load_model(device="TPU")


def test_info(bundled: asr.Model) -> None:
    info = bundled.info()
    assert info["name"] == "tiny-commands-en"
    assert info["decoders"] == ["tdt", "ctc"]
    assert {
        "path",
        "size",
        "vocabulary",
        "sample rate",
        "mel bins",
        "encoder layers",
        "width",
        "heads",
        "attention context",
        "frame",
        "tensor types",
        "license",
    } <= set(info)


def test_log_probs_are_probabilities(hybrid: asr.Model, clips: dict[str, Array]) -> None:
    log_probs = hybrid.log_probs(clips["medium"])
    assert log_probs.shape == (len(hybrid.encode(clips["medium"])), hybrid.config.vocab_size + 1)
    assert np.allclose(np.exp(log_probs.astype(np.float64)).sum(axis=1), 1, atol=1e-5)


# The module's function, and checkpoints


def test_transcribe_keeps_its_model(
    gguf_path: Callable[[str], Path], clips: dict[str, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Path] = []
    original = model_module.Model.__init__

    def counted(self: asr.Model, path: Path, **options: object) -> None:
        loaded.append(path)
        original(self, path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(model_module.Model, "__init__", counted)
    path = gguf_path("tdt-ctc")
    first = asr.transcribe(clips["medium"], path, n_threads=1)
    assert asr.transcribe(clips["medium"], str(path), n_threads=1) == first
    assert asr.transcribe([clips["medium"]], path, n_threads=1, decoder="tdt") == [first]
    assert len(loaded) == 1
    asr.transcribe(clips["short"], gguf_path("rnnt"), n_threads=1)
    assert len(loaded) == 2


def test_transcribe_takes_a_loaded_model(hybrid: asr.Model, clips: dict[str, Array]) -> None:
    assert asr.transcribe(clips["medium"], hybrid) == hybrid.transcribe(clips["medium"])


def test_checkpoint_is_converted_once(
    fixtures_folder: Path,
    hybrid: asr.Model,
    clips: dict[str, Array],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ASR_CACHE_DIR", str(tmp_path / "cache"))
    checkpoint = fixtures_folder / "tdt-ctc" / "model.nemo"
    model = asr.load_model(checkpoint, n_threads=1)
    (converted,) = (tmp_path / "cache").rglob("*.gguf")
    state = converted.stat()
    again = asr.load_model(str(checkpoint), n_threads=1)
    assert list((tmp_path / "cache").rglob("*.*")) == [converted]
    assert (converted.stat().st_mtime_ns, converted.stat().st_ino) == (state.st_mtime_ns, state.st_ino)
    expected = hybrid.encode(clips["medium"])
    assert np.array_equal(model.encode(clips["medium"]), expected)
    assert np.array_equal(again.encode(clips["medium"]), expected)


def test_damaged_checkpoint_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASR_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "bad.nemo"
    path.write_bytes(b"not a tar archive" * 100)
    with pytest.raises(asr.ModelFormatError, match=r"bad\.nemo"):
        asr.load_model(path)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


def test_no_more_threads_than_cpus() -> None:
    assert asr.load_model(n_threads=2**40).backend.n_threads <= (os.cpu_count() or 1)
    assert asr.load_model(n_threads=0).backend.n_threads == 1


def test_audio_and_options_that_cannot_be(bundled: asr.Model, clips: dict[str, Array]) -> None:
    for seconds in (-1.0, 1e12, 1e300, float("nan")):
        with pytest.raises(asr.AsrError, match="min_duration must be"):
            bundled.transcribe(clips["short"], min_duration=seconds)
    file = io.BytesIO()
    file.close()
    with pytest.raises(asr.AudioError, match="cannot be read"):
        bundled.transcribe(file)
    with pytest.raises(asr.ModelNotFoundError, match="cannot look at the model"):
        asr.load_model("m" * 5000)
    with pytest.raises(asr.AudioError, match="-m"):
        bundled.transcribe(bundled.path)
