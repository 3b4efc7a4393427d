"""`lamina.load` of runs and checkpoints, replies with their runners-up, and texts of any length."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import lamina
from lamina.answers.calibration import Calibration
from lamina.answers.decode import decode
from lamina.data import windows as windows_module
from lamina.data.logits import SpanLogits
from lamina.data.tokenizer import Tokens
from lamina.data.windows import Windows, make_windows
from lamina.errors import LaminaError
from lamina.model.inference import TorchEngine, span_logits
from lamina.reader.questions import span_predictions
from lamina.utils.progress import Progress, Silent
from tests import tiny
from tests.golden import TRAINED, cases


@pytest.fixture(scope="module")
def reader() -> lamina.Reader:
    return lamina.load(TRAINED, device="cpu")


def test_checkpoint_answers_with_its_own_head(reader: lamina.Reader) -> None:
    reply = reader.answer("Who built the mill?", cases.MILL, threshold=1e6)
    assert reply.text is not None and cases.MILL[reply.start : reply.end] == reply.text
    assert reader.calibration == Calibration()


def test_runners_up(reader: lamina.Reader) -> None:
    texts = ["Nothing here.", cases.MILL]
    reply = reader.answer("Who built the mill?", texts, threshold=1e6, top_k=6)
    assert len(reply.others) == 5
    for quote in reply.others:
        assert texts[quote.context][quote.start : quote.end] == quote.text
        assert 0 <= quote.confidence <= 1
    assert reader.answer("Who?", texts, threshold=1e6).others == ()
    silent = reader.answer("Who built the mill?", texts, threshold=-1e6, top_k=2)
    assert silent.text is None and silent.confidence == silent.no_answer and len(silent.others) == 2
    assert silent.others[0].text == reply.text


def test_threshold_of_nan_is_refused(reader: lamina.Reader) -> None:
    by_text = reader.text_by_text(["Who built the mill?"])
    by_text.read([cases.MILL])
    ways: list[Callable[[float], lamina.Reply]] = [
        lambda threshold: reader.answer("Who built the mill?", cases.MILL, threshold=threshold),
        lambda threshold: reader.answer("Who built the mill?", [cases.MILL, "It rained."], threshold=threshold),
        lambda threshold: by_text.replies(threshold)[0],
    ]
    for answer in ways:
        with pytest.raises(ValueError, match="threshold is nan"):
            answer(math.nan)
        assert answer(math.inf).text is not None
        assert answer(-math.inf).text is None


@pytest.mark.filterwarnings("ignore::lamina.LaminaWarning")
def test_pieces_give_the_same_replies_as_the_whole(reader: lamina.Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [tiny.example(text, question=f"Who is {n}?", id=str(n)) for n, text in enumerate(cases.TEXTS.values()) if n < 13]
    made = make_windows(examples, reader.tokenizer, reader.recipe.window)
    logits = span_logits(reader.model, made)
    whole = decode(made, logits.start, logits.end, examples, reader.recipe.answer)
    for tokens in (1, 1000, 5000):
        monkeypatch.setattr(windows_module.Cutting.pieces, "__defaults__", (tokens,))
        pieced = reader.predict(examples)
        assert [p.id for p in pieced] == [p.id for p in whole]
        for one, other in zip(pieced, whole, strict=True):
            assert one.null == pytest.approx(other.null, abs=1e-4)
            assert [c.score for c in one.candidates] == pytest.approx([c.score for c in other.candidates], abs=1e-4)


def test_confidence_of_an_answer_is_that_of_its_own_text(reader: lamina.Reader) -> None:
    texts = [cases.MILL, "Ada was born in 1790.", "Nobody built the mill.", ""]
    reply = reader.answer("Who built the mill?", texts, threshold=1e6, top_k=5000)
    assert len(reply.others) > 20 and {quote.context for quote in reply.others} == {0, 1, 2}
    examples = [tiny.example(text, question="Who built the mill?", id=str(number)) for number, text in enumerate(texts[:3])]
    assert reply.answer is not None
    surest = 1.0
    many_best = reader.trained.recipe.answer.model_copy(update={"n_best": 5000})
    predictions = list(span_predictions(reader.trained, examples, many_best, Silent()))
    chances = [reader.calibration.probabilities(prediction) for prediction in predictions]
    places = [{(c.text, c.start): place for place, c in enumerate(p.candidates, 1)} for p in predictions]
    for quote in (reply.answer, *reply.others):
        own = chances[quote.context][places[quote.context][quote.text, quote.start]]
        surest = min(own, surest)  # at most the confidence of the quote before it
        assert quote.confidence == pytest.approx(surest, abs=1e-6)
    assert reply.context is not None
    assert reply.no_answer == pytest.approx(min(chances[reply.context][0], reply.confidence), abs=1e-6)
    alone = reader.answer("Who built the mill?", texts[reply.context], threshold=1e6, top_k=5000)
    assert (alone.confidence, alone.no_answer) == pytest.approx((reply.confidence, reply.no_answer), abs=1e-6)
    few, many = (reader.answer("Who built the mill?", given, threshold=1e6) for given in (texts, [*texts, *texts[1:3] * 50]))
    assert many.confidence == pytest.approx(few.confidence, abs=1e-6), "it does not depend on the number of texts"


def test_a_file_name_as_context_is_reported(reader: lamina.Reader, tmp_path: Path) -> None:
    file = tmp_path / "my report.txt"
    file.write_text("The mill was built by Ada Thorn.")
    with pytest.warns(
        lamina.LaminaWarning, match=r"is the name of a file, .* Fix: pass lamina\.read_document\('.*my report\.txt'\)"
    ):
        reader.answer("Who built the mill?", str(file))
    with pytest.raises(TypeError, match=r"not PosixPath\. Fix: read the file with lamina\.read_document"):
        reader.answer("Who built the mill?", file)  # type: ignore[call-overload]


def test_generators_of_questions_and_texts(reader: lamina.Reader) -> None:
    usual = reader.answer(["Who?", "When?"], [cases.MILL, "Ada."])
    assert reader.answer((q for q in ("Who?", "When?")), (t for t in (cases.MILL, "Ada."))) == usual


def test_equal_texts_are_tokenised_once(reader: lamina.Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The miller of Dunmore sold the mill."
    first = reader.answer("Who sold it?", text, threshold=1e6)
    seen: list[str] = []
    encode = reader.tokenizer._encode_blocks

    def noted(texts: Sequence[str], *, words: bool) -> Tokens:
        seen.extend(texts)
        return encode(texts, words=words)

    monkeypatch.setattr(reader.tokenizer, "_encode_blocks", noted)
    assert reader.answer("Who sold it?", text, threshold=1e6) == first
    assert seen == ["Who sold it?"]
    reader.answer("Who sold it?", text + " Yes.")
    assert text + " Yes." in seen


def test_loading_does_not_change_the_random_generators() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    lamina.load(TRAINED, device="cpu")
    assert torch.equal(torch.rand(2), expected)


def test_replies_are_yielded_one_by_one(reader: lamina.Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_module.Cutting.pieces, "__defaults__", (1,))
    answered: list[Windows] = []

    def noted(engine: TorchEngine, windows: Windows, task: str, progress: Progress) -> SpanLogits:
        answered.append(windows)
        return span_logits(engine.model, windows, task=task, progress=progress)

    monkeypatch.setattr(TorchEngine, "spans", noted)
    replies = reader.replies(["Who?", "When?"], [cases.MILL, "Ada."], threshold=1e6)
    assert next(replies).question == "Who?" and len(answered) == 3  # the third window begins the next question
    assert next(replies).question == "When?" and len(answered) == 4
    assert next(replies, None) is None


def test_wrong_models_raise(tmp_path: Path) -> None:
    headless = shutil.copytree(TRAINED, tmp_path / "headless")
    weights = load_file(headless / "model.safetensors")
    save_file({k: v for k, v in weights.items() if not k.startswith("qa_")}, headless / "model.safetensors")
    with pytest.raises(LaminaError, match=r"no trained question-answering head \(qa_outputs.bias is missing\)"):
        lamina.load(headless)

    three = shutil.copytree(TRAINED, tmp_path / "three")
    save_file(weights | {"qa_outputs.weight": np.zeros((3, 64), np.float32)}, three / "model.safetensors")
    with pytest.raises(LaminaError, match="do not give one start and one end for each token"):
        lamina.load(three)

    other = shutil.copytree(TRAINED, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"model_type": "longformer"}))
    with pytest.raises(LaminaError, match=r"cannot load model_type 'longformer'.*distilbert"):
        lamina.load(other)
    small = shutil.copytree(TRAINED, tmp_path / "small")
    (small / "config.json").write_text(json.dumps(config | {"vocab_size": 100}))
    save_file(
        weights | {"bert.embeddings.word_embeddings.weight": np.zeros((100, 64), np.float16)}, small / "model.safetensors"
    )
    with pytest.raises(LaminaError, match=r"encoder\.tokenizer: it has \d+ tokens, but .* embeds 100"):
        lamina.load(small)
    assert lamina.load(shutil.copytree(TRAINED, tmp_path / "tiny")).recipe.encoder.model == str(tmp_path / "tiny")
    with pytest.raises(LaminaError, match=r"not a run folder.*not a checkpoint.*no hub id"):
        lamina.load(tmp_path / "nothing")
    with pytest.raises(LaminaError, match=r"has no run.json"):
        lamina.load(tmp_path)


LONG = """
import resource, sys
import lamina
reader = lamina.load(sys.argv[1], device="cpu", threads=1)
sentence = "In %d the mill of the river was sold to Ada by the guild of the old stone house. "
text = "".join(sentence % n for n in range(900_000))[: int(sys.argv[2])]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reply = reader.answer("Who?", text, threshold=1e6)
assert text[reply.start:reply.end] == reply.text
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
def test_long_text_needs_little_memory() -> None:
    """Answer from two megabytes, half a million tokens, whose windows alone would need more memory.

    docs/log.md has the figure for 50 MB.
    """
    done = subprocess.run([sys.executable, "-c", LONG, TRAINED, "2000000"], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 300
