"""`Reader.save` and `Reader.push_to_hub`: what they write, and that `lamina.load` opens it again."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

import lamina
from lamina.answers.decisions import SpanDecision
from lamina.data.squad import to_squad
from lamina.reader.model_card import model_card
from tests import tiny
from tests.golden import TRAINED
from tests.hub_server import TOKEN, Hub, Repository, running_hub

STORY = "The heron was born in 1807. It lives in a ruined mill by the sea."
QUESTIONS = ["When was the heron born?", "Where does the heron live?", "Who painted the heron?"]
FILES = {"README.md", "encoder.json", "model.safetensors", "recipe.json", "run.json", "scores.json", "tokenizer.json"}

FITTED = SpanDecision(threshold=1.5, unanswerable=0.3)
LATER = FITTED.model_copy(update={"calibrated": "labelled"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus, a recipe, a checkpoint, and a run that trains only a head on the frozen checkpoint."""
    folder = tmp_path_factory.mktemp("saving")
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(6))))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    shutil.copytree(TRAINED, folder / "checkpoint")
    frozen = {"encoder.model": str(folder / "checkpoint"), "encoder.pretrained": True, "tune.layers": 0, "train.epochs": 0.5}
    lamina.train(folder / "small.toml", folder / "frozen", settings=frozen)
    return folder


def replies(reader: lamina.Reader) -> list[lamina.Reply]:
    return [*reader.answer(QUESTIONS, STORY, top_k=3), *reader.answer(QUESTIONS, STORY, threshold=1e6)]


def test_a_saved_run_has_the_same_answers_and_no_training_state(folder: Path, tmp_path: Path) -> None:
    run = lamina.train(folder / "small.toml", tmp_path / "run", settings={"train.epochs": 0.5})
    reader = lamina.load(run.path, device="cpu")
    saved = reader.save(tmp_path / "saved")
    assert {file.name for file in saved.path.iterdir()} == FILES
    again = lamina.load(saved.path, device="cpu")
    assert replies(again) == replies(reader)
    names = {"data.train": "train.json", "data.dev": "dev.json"}
    assert again.decision == reader.decision and again.recipe == lamina.read_recipe(run.recipe, names)
    for file in FILES - {"tokenizer.json"}:
        assert (
            str(tmp_path).encode() not in (saved.path / file).read_bytes()
            and str(folder).encode() not in (saved.path / file).read_bytes()
        ), f"{file} names a folder of this machine"
    assert again.evaluate(str(folder / "dev.json")) == reader.evaluate(str(folder / "dev.json"))
    twice = lamina.load(again.save(tmp_path / "twice").path, device="cpu")
    assert replies(twice) == replies(reader)
    assert (tmp_path / "twice" / "model.safetensors").read_bytes() == saved.model.read_bytes()


def test_a_frozen_encoder_in_a_folder_is_saved_with_the_model(folder: Path, tmp_path: Path) -> None:
    """The folder of the encoder is on this machine only, so the saved folder must not need it."""
    shutil.copytree(folder / "checkpoint", tmp_path / "checkpoint")
    shutil.copytree(folder / "frozen", tmp_path / "frozen")
    recipe = json.loads((tmp_path / "frozen" / "recipe.json").read_text())
    recipe["encoder"]["model"] = str(tmp_path / "checkpoint")
    (tmp_path / "frozen" / "recipe.json").write_text(json.dumps(recipe))
    reader = lamina.load(tmp_path / "frozen", device="cpu")
    saved = reader.save(tmp_path / "saved")
    for file in (saved.recipe, saved.info, saved.path / "README.md"):
        assert str(tmp_path) not in file.read_text()
    assert saved.model.stat().st_size > 10 * (tmp_path / "frozen" / "model.safetensors").stat().st_size
    expected = replies(reader)
    shutil.rmtree(tmp_path / "checkpoint")
    assert replies(lamina.load(saved.path, device="cpu")) == expected


def test_the_default_encoder_is_not_saved_with_a_head(folder: Path, tmp_path: Path) -> None:
    settings = {"encoder.model": "minilm", "encoder.pretrained": True, "tune.layers": 0, "train.epochs": 0.1}
    run = lamina.train(folder / "small.toml", tmp_path / "run", settings=settings, dev=False)
    reader = lamina.load(run.path, device="cpu")
    saved = reader.save(tmp_path / "saved")
    assert saved.model.stat().st_size < 1e6, "MiniLM has 90 MB and comes with Lamina"
    assert replies(lamina.load(saved.path, device="cpu")) == replies(reader)
    card = ModelCard.load(saved.path / "README.md")
    assert card.data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert not saved.scores.exists() and "## Scores\n\nLamina did not measure any." in card.text


def test_a_checkpoint_is_saved_as_a_run(tmp_path: Path) -> None:
    reader = lamina.load(TRAINED, device="cpu")
    saved = reader.save(tmp_path / "saved")
    assert replies(lamina.load(saved.path, device="cpu")) == replies(reader)
    assert "does not know the training data" in (saved.path / "README.md").read_text()


def test_nothing_is_overwritten(folder: Path, tmp_path: Path) -> None:
    reader = lamina.load(folder / "frozen", device="cpu")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(lamina.LaminaError, match=r"exists and is not empty. Fix: save into a new folder"):
        reader.save(tmp_path)
    with pytest.raises(lamina.LaminaError, match="exists and is not empty"):
        reader.save(tmp_path / "mine.txt")
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    assert reader.save(tmp_path / "empty").finished


def test_the_model_card_names_the_data_the_scores_and_the_use(folder: Path, tmp_path: Path) -> None:
    reader = lamina.load(folder / "frozen", device="cpu")
    saved = reader.save(tmp_path / "mill-reader", license="apache-2.0")
    card, scores = ModelCard.load(saved.path / "README.md"), json.loads(saved.scores.read_text())
    front = card.data.to_dict()
    assert (front["library_name"], front["pipeline_tag"], front["license"]) == ("lamina", "question-answering", "apache-2.0")
    assert "datasets" not in front, "a file of this machine is no dataset of the hub"
    assert front["metrics"] == ["exact_match", "f1"] and "a file of the author, train. 20% were held out" in card.text
    assert [heading for heading in card.text.splitlines() if heading.startswith("## ")] == [
        "## How to use it",
        "## Training data",
        "## Scores",
        "## Limits",
    ]
    assert f"| main | dev | F1 | {scores['tuned']['f1']:.2f} |" in card.text
    code = card.text.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line]) <= 5
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "confidence" in done.stdout


def test_the_model_card_names_datasets_that_others_can_load() -> None:
    recipe = lamina.read_recipe("sentences")
    scores = {"sentiment": {"accuracy": 0.5, "macro_f1": 0.4}, "similarity": {"pearson": 0.8}, "overall": {"accuracy": 0.6}}
    front: Any = ModelCard(model_card(recipe, scores, name="ada/tales", parameters=10, version="1.0")).data
    assert front.datasets == ["fables-sentiment", "fables-paraphrase", "fables-similarity"]
    found = {(result.dataset_name, result.metric_type): result.metric_value for result in front.eval_results or []}
    assert found == {
        ("fables-sentiment", "accuracy"): 0.5,
        ("fables-sentiment", "f1"): 0.4,
        ("fables-similarity", "pearsonr"): 0.8,
    }
    assert front.base_model == "sentence-transformers/all-MiniLM-L6-v2"


def test_the_model_card_knows_configs_and_local_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = lamina.read_recipe("quickstart", {"data.train": "ada/tales/plain:train", "data.dev": "ada/tales/plain:dev"})
    text = model_card(recipe, None, name="tales", parameters=1, version="1")
    front: Any = ModelCard(text).data
    assert front.datasets == ["ada/tales"]
    (tmp_path / "ada" / "tales").mkdir(parents=True)
    (tmp_path / "ada" / "tales" / "train.csv").write_text("question,context,answer\n")
    recipe = lamina.read_recipe("quickstart", {"data.train": "ada/tales:train", "data.dev": None})
    text = model_card(recipe, None, name="tales", parameters=1, version="1")
    front = ModelCard(text).data
    assert front.datasets is None and "a file of the author" in text


@pytest.mark.parametrize(
    ("settings", "decision", "present", "absent"),
    [
        ({}, FITTED, ["fitted on held-out questions", "% were held out", "to fit the decision"], ["default"]),
        ({}, SpanDecision(), ["was not fitted", "% were held out to choose the checkpoint."], ["was fitted", "to fit"]),
        ({"data.holdout": 0}, SpanDecision(), ["was not fitted", "has its default"], ["was fitted", "% were held out"]),
        ({"data.holdout": 0}, FITTED, ["fitted on held-out questions", "other trainings held out"], ["default", "not fitted"]),
        ({"data.holdout": 0}, LATER, ["calibrated after training", "the last step was kept."], ["default", "was fitted"]),
        ({}, SpanDecision(unanswerable=0.3), ["fitted on held-out questions", "to fit the decision"], ["not fitted"]),
        ({"data.train": "", "data.dev": None}, SpanDecision(), ["was not fitted", "does not know"], ["was fitted", "held out"]),
    ],
)
def test_the_model_card_says_how_the_decision_was_fitted(
    settings: dict[str, Any], decision: SpanDecision, present: list[str], absent: list[str]
) -> None:
    recipe = lamina.read_recipe("quickstart", settings)
    text = model_card(recipe, None, name="tale", parameters=1, version="1", decisions={"main": decision})
    assert all(part in text for part in present) and not any(part in text for part in absent)


def test_the_model_card_quotes_the_name_of_the_model() -> None:
    usual = model_card(lamina.read_recipe("quickstart"), None, name='a "tale"', parameters=1, version="1")
    code = usual.split("```python\n")[1].split("```")[0]
    assert next(node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)) == 'a "tale"'


def test_the_model_card_of_sentence_tasks(tmp_path: Path) -> None:
    rows = [f"{number}\tthe tale {number} is {'good' if number % 2 else 'bad'}\t{number % 2}" for number in range(40)]
    (tmp_path / "mood.tsv").write_text("\n".join(["id\tsentence\tsentiment", *rows]) + "\n")
    values = {
        "data": {"train": str(tmp_path / "mood.tsv"), "dev": str(tmp_path / "mood.tsv"), "classes": ["0", "1"]},
        "head": {"type": "classification"},
        "encoder": {"model": "tiny", "pretrained": False},
        "window": {"length": 32, "query": 16},
        "train": {"epochs": 0.2, "threads": 1},
    }
    (tmp_path / "recipe.json").write_text(json.dumps(values))
    run = lamina.train(tmp_path / "recipe.json", tmp_path / "run")
    reader = lamina.load(run.path, device="cpu")
    saved = reader.save(tmp_path / "saved")
    assert lamina.load(saved.path).classify("a good tale") == reader.classify("a good tale")
    card = ModelCard.load(saved.path / "README.md")
    assert card.data.pipeline_tag == "text-classification" and "accuracy" in card.data.metrics
    assert "reader.predictions" in card.text and "no answer" not in card.text


PUSH_AND_LOAD = """
import sys, lamina
reader = lamina.load(sys.argv[1], device="cpu")
print(reader.push_to_hub("ada/mill", private=True, commit_message="The first model"))
print(reader.push_to_hub("ada/mill", revision="v2"))
question = "When was the heron born?", "The heron was born in 1807."
for revision in (None, "v2"):
    again = lamina.load("ada/mill", revision=revision, device="cpu")
    assert again.answer(*question, threshold=1e6) == reader.answer(*question, threshold=1e6)
pipe = lamina.pipeline("question-answering", model="ada/mill")
assert pipe(question=question[0], context=question[1])["answer"]
for name, token in (("ada/nothing", None), ("ada/mill", "hf_wrong")):
    try:
        lamina.load(name, token=token, revision="v3" if name == "ada/mill" else None)
    except lamina.LaminaError as error:
        print(error)
try:
    reader.push_to_hub("ada/other", token="hf_wrong")
except lamina.LaminaError as error:
    print(error)
"""
TOKENS = """
import os, sys, lamina
reader = lamina.load(sys.argv[1], device="cpu")
token = os.environ.pop("HF_TOKEN")
print(reader.push_to_hub("ada/mill", private=True, token=token + "\\n"))
assert lamina.load("ada/mill", token=" " + token + "\\n", device="cpu").answer("Who?", "Ada.").question == "Who?"
for secret in ("hf_SECRET\\n", "hf_SEC\\nRET", "hf_SEC\\x00RET"):
    for call in (lambda: reader.push_to_hub("ada/mill", token=secret), lambda: lamina.load("ada/other", token=secret)):
        try:
            call()
        except lamina.LaminaError as error:
            assert "SEC" not in str(error) and "RET" not in str(error), str(error)
        else:
            raise SystemExit("a wrong token was accepted")
"""
PUSH_TWICE = """
import sys, lamina
scored, unscored = (lamina.load(path, device="cpu") for path in sys.argv[1:])
scored.push_to_hub("ada/mill")
unscored.push_to_hub("ada/mill")
"""


CHECKPOINT = """
import sys, lamina
reader = lamina.load("ada/qa", revision="main", device="cpu")
assert reader.recipe.encoder.model == "ada/qa", reader.recipe.encoder.model
assert "ada/qa" in (reader.save(sys.argv[1]).path / "README.md").read_text()
"""


def with_hub(script: str, *arguments: str | Path, home: Path, repositories: dict[str, Repository] | None = None) -> Hub:
    """Run a script with a small hub on this machine, and return the hub."""
    with running_hub() as hub:
        hub.repositories |= repositories or {}
        hidden = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        environment = hidden | {"HF_ENDPOINT": hub.address, "HF_HOME": str(home), "HF_TOKEN": TOKEN}
        run = [sys.executable, "-c", script, *map(str, arguments)]
        done = subprocess.run(run, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
    return hub


def test_tokens_are_stripped_and_never_shown(folder: Path, tmp_path: Path) -> None:
    hub = with_hub(TOKENS, folder / "frozen", home=tmp_path / "home")
    assert set(hub.repositories["ada/mill"].branches["main"]) == FILES


def test_a_checkpoint_of_a_revision_keeps_its_name(tmp_path: Path) -> None:
    checkpoint = Repository(private=False)
    checkpoint.branches["main"] = {file.name: file.read_bytes() for file in TRAINED.iterdir()}
    with_hub(CHECKPOINT, tmp_path / "saved", home=tmp_path / "home", repositories={"ada/qa": checkpoint})


def test_an_upload_leaves_no_file_of_an_older_model(folder: Path, tmp_path: Path) -> None:
    unscored = lamina.train(folder / "small.toml", tmp_path / "run", dev=False, settings={"train.epochs": 0.1})
    hub = with_hub(PUSH_TWICE, folder / "frozen", unscored.path, home=tmp_path / "home")
    assert set(hub.repositories["ada/mill"].branches["main"]) == FILES - {"scores.json"}


def test_a_model_goes_to_the_hub_and_comes_back(folder: Path, tmp_path: Path) -> None:
    """A real client in a process of its own, against a small hub on this machine."""
    with running_hub() as hub:
        hidden = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        environment = hidden | {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN}
        run = [sys.executable, "-c", PUSH_AND_LOAD, str(folder / "frozen")]
        done = subprocess.run(run, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        first, second, missing, no_revision, refused = done.stdout.splitlines()
        repository = hub.repositories["ada/mill"]
    assert first.startswith(f"{hub.address}/ada/mill/commit/") and second.startswith(f"{hub.address}/ada/mill/commit/")
    assert repository.private and repository.messages == ["The first model", "Upload a Lamina model"]
    assert repository.branches.keys() == {"main", "v2"} and set(repository.branches["main"]) == FILES
    card = ModelCard(repository.branches["main"]["README.md"].decode())
    assert 'lamina.load("ada/mill")' in card.text
    assert "ada/nothing" in missing and "ada/mill" in no_revision
    assert refused.startswith("ada/other: cannot be uploaded to the hub (") and "Fix: check the name and log in" in refused
    for name, content in repository.branches["main"].items():
        (tmp_path / name).write_bytes(content)
    assert replies(lamina.load(tmp_path, device="cpu")) == replies(lamina.load(folder / "frozen", device="cpu"))


# ---- weights in 8 bits


def test_a_model_in_8_bits_has_a_quarter_of_the_size_and_nearly_the_same_outputs(folder: Path, tmp_path: Path) -> None:
    run = lamina.train(folder / "small.toml", tmp_path / "run", settings={"train.epochs": 0.5})
    reader = lamina.load(run.path, device="cpu")
    exact, small = reader.save(tmp_path / "exact"), reader.save(tmp_path / "small", weights="int8")
    assert small.model.stat().st_size < 0.27 * exact.model.stat().st_size
    assert (exact.read_info()["weights"], small.read_info()["weights"]) == ("float32", "int8")
    again = lamina.load(small.path, device="cpu")
    assert (again.decision, again.recipe) == (reader.decision, lamina.load(exact.path).recipe)
    assert again.model.encoder.config.pooler is False and reader.model.encoder.config.pooler is True
    for now, before in zip(again.predict(tiny.corpus(3)), reader.predict(tiny.corpus(3)), strict=True):
        assert now.null == pytest.approx(before.null, abs=0.02)
    twice = lamina.load(again.save(tmp_path / "twice", weights="int8").path, device="cpu")
    assert [reply.text for reply in replies(twice)] == [reply.text for reply in replies(again)]
    start = {"encoder.model": str(small.path), "encoder.pretrained": True, "train.epochs": 0}
    started = lamina.train(folder / "small.toml", tmp_path / "started", settings=start)
    ours, theirs = (model.model.encoder.state_dict() for model in (lamina.load(started.path, device="cpu"), again))
    assert all((ours[name] == theirs[name]).all() for name in theirs), "a run can start from the folder"
    with pytest.raises(ValueError, match='weights must be "float32" or "int8", not \'int4\''):
        reader.save(tmp_path / "int4", weights="int4")  # type: ignore[arg-type]


def test_a_packed_model_with_changed_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    small = lamina.load(folder / "frozen", device="cpu").save(tmp_path / "small", weights="int8")
    content = bytearray(small.model.read_bytes())
    content[-1] ^= 1
    small.model.write_bytes(content)
    with pytest.raises(lamina.LaminaError, match=r"has the checksum crc32:\w+, but run.json has crc32:\w+"):
        lamina.load(small.path)


def test_a_pooler_that_a_head_reads_stays(folder: Path, tmp_path: Path) -> None:
    settings = {"head.type": "answerability", "train.epochs": 0.1}
    run = lamina.train(folder / "small.toml", tmp_path / "run", settings=settings)
    small = lamina.load(run.path, device="cpu").save(tmp_path / "small", weights="int8")
    again = lamina.load(small.path, device="cpu")
    assert again.model.encoder.config.pooler is True
    assert again.evaluate(str(folder / "dev.json")).keys() == lamina.evaluate(run.path, str(folder / "dev.json")).keys()
