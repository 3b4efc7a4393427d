from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import lamina
from lamina.answers.calibration import Calibration
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import AnswerOptions
from lamina.config.parse import parse_recipe
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, make_windows
from lamina.encoder import load as encoders
from lamina.encoder.families import parse, unparse
from lamina.errors import LaminaError, LaminaWarning
from lamina.model.inference import span_logits
from lamina.reader.load import Reader
from lamina.runs.export import export, exportable_head
from lamina.runs.load import Trained, as_torch
from tests import tiny
from tests.golden import TRAINED, cases, checkpoints


@pytest.mark.filterwarnings("ignore::lamina.LaminaWarning")
@pytest.mark.parametrize("name", checkpoints.names())
def test_transformers_loads_the_export_with_equal_logits(name: str, tmp_path: Path) -> None:
    reader = lamina.load(checkpoints.write(name, tmp_path / "from"), device="cpu")
    export(reader.trained, tmp_path / "to")
    model, notes = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "to", output_loading_info=True)
    assert not notes["missing_keys"] and not notes["unexpected_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "to")
    question, context = "Who built the mill?", "Ada Thorn built the old mill in 1823."
    inputs = tokenizer(question, context, return_tensors="pt")
    with torch.no_grad():
        theirs = model.eval()(**inputs)
    windows = make_windows([tiny.example(context, question=question)], reader.tokenizer, WindowOptions())
    assert inputs["input_ids"][0].tolist() == windows.ids.tolist()
    ours = span_logits(reader.model, windows)
    np.testing.assert_allclose(ours.start, theirs.start_logits[0].numpy(), atol=1e-5 * np.abs(ours.start).max())
    np.testing.assert_allclose(ours.end, theirs.end_logits[0].numpy(), atol=1e-5 * np.abs(ours.end).max())
    again = span_logits(lamina.load(tmp_path / "to", device="cpu").model, windows)
    np.testing.assert_array_equal(again.start, ours.start)


@pytest.mark.parametrize("name", checkpoints.names())
def test_config_is_equal_after_export_and_parse(name: str, tmp_path: Path) -> None:
    config = lamina.load(checkpoints.write(name, tmp_path), device="cpu").model.encoder.config
    assert replace(parse(unparse(config), where=""), pooler=config.pooler) == config
    written = json.loads(json.dumps(unparse(config)))
    assert written["architectures"][0].endswith("ForQuestionAnswering")


def test_exported_tokenizer_does_not_truncate(tmp_path: Path) -> None:
    """Export a tokenizer that truncates: MiniLM's tokenizer.json cuts at 128 tokens."""
    shape = lamina.load(TRAINED, device="cpu")
    recipe = parse_recipe({"data": {"train": ""}})
    source = encoders.find(recipe.encoder)
    assert json.loads(source.tokenizer.read_text())["truncation"]
    export(Trained(recipe=recipe, model=shape.model, tokenizer=Tokenizer(source.tokenizer)), tmp_path / "to")
    assert not json.loads((tmp_path / "to" / "tokenizer.json").read_text())["truncation"]
    written = json.loads((tmp_path / "to" / "tokenizer_config.json").read_text())
    assert (written["cls_token"], written["sep_token"], written["pad_token"]) == ("[CLS]", "[SEP]", "[PAD]")


def test_export_does_not_overwrite_files(tmp_path: Path) -> None:
    reader = lamina.load(checkpoints.write("bert-cased", tmp_path / "from"), device="cpu")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "precious").write_text("mine")
    with pytest.raises(LaminaError, match="new folder"):
        export(reader.trained, tmp_path / "to")
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["precious"]


def test_export_of_an_unknown_model_raises() -> None:
    model = tiny.model()
    model.tasks["main"].mixer = torch.nn.Identity()
    with pytest.raises(LaminaError, match="Identity"):
        exportable_head(model)


@pytest.fixture(scope="module")
def fitted() -> Trained:
    """Return a model with a decision, windows and decoding that are not the defaults."""
    trained = as_torch(lamina.load(TRAINED, device="cpu").trained)
    decision = SpanDecision(threshold=1.5, calibration=Calibration(2.5, -0.75), question_threshold=-0.5)
    window, answer = WindowOptions(length=48, query=None, overlap=4), AnswerOptions(max_tokens=6, n_best=7)
    recipe = trained.recipe.model_copy(update={"window": window, "answer": answer})
    return replace(trained, recipe=recipe, decisions={"main": decision})


def test_export_answers_with_the_decision_of_its_run(fitted: Trained, tmp_path: Path) -> None:
    export(fitted, tmp_path / "to")
    original, exported = Reader(fitted), lamina.load(tmp_path / "to", device="cpu")
    assert exported.decision == original.decision
    assert (exported.recipe.window, exported.recipe.answer) == (fitted.recipe.window, fitted.recipe.answer)
    contexts = [cases.MILL, cases.MILL * 5]
    for threshold in (None, math.inf):
        found, wanted = (
            [reader.answer("Who built the mill?", given, threshold=threshold, top_k=3) for given in (*contexts, contexts)]
            for reader in (exported, original)
        )
        assert found == wanted
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "to")
    assert model.config.lamina["decision"]["threshold"] == 1.5


def test_decision_for_other_weights_is_not_used(fitted: Trained, tmp_path: Path) -> None:
    """Train the exported model further with transformers, which copies the fields of config.json."""
    export(fitted, tmp_path / "to")
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "to")
    with torch.no_grad():
        model.qa_outputs.bias += 1
    model.save_pretrained(tmp_path / "further")
    shutil.copyfile(tmp_path / "to" / "tokenizer.json", tmp_path / "further" / "tokenizer.json")
    with pytest.warns(LaminaWarning, match=r"config\.json: the threshold and calibration were fitted for other weights"):
        reader = lamina.load(tmp_path / "further", device="cpu")
    assert reader.decision == SpanDecision()


@pytest.mark.parametrize("field", ["decision", "window"])
def test_damaged_settings_of_an_export_raise(fitted: Trained, tmp_path: Path, field: str) -> None:
    export(fitted, tmp_path / "to")
    config = json.loads((tmp_path / "to" / "config.json").read_text())
    config["lamina"][field] = {"threshold": math.nan} if field == "decision" else {"length": "long"}
    (tmp_path / "to" / "config.json").write_text(json.dumps(config))
    with pytest.raises(LaminaError, match=rf"config\.json: lamina\.{field}\.\w+: .* Fix: export the run again"):
        lamina.load(tmp_path / "to", device="cpu")
