"""Pretraining on spans: the held-out score rises, stopped runs resume to the same files, and recipes start from the folder."""

from __future__ import annotations

import json
import lzma
import signal
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import lamina
from lamina.config.parse import parse_recipe
from lamina.data.squad import to_squad
from lamina.encoder.load import EncoderOptions, find
from lamina.errors import LaminaError
from lamina.pretraining.corpus import read_corpus
from lamina.pretraining.folder import PretrainingFolder
from lamina.pretraining.masking import mask_token
from lamina.pretraining.pretrain_recipe import PretrainRecipe, parse_pretrain_recipe
from lamina.pretraining.span_trainer import epoch_dataset, read_questions
from lamina.pretraining.texts import TextSource, read_texts
from lamina.pretraining.trainer import pretrain
from lamina.state_cache.dataset import missing_the_answer
from lamina.training.trainer import train
from lamina.utils.background import BackgroundCall
from lamina.utils.progress import Silent
from lamina.utils.run_folder import Run
from tests.command import lamina as command
from tests.pretraining.test_trainer import entries, finished, started
from tests.tiny import Heard, corpus, tokenizer
from tests.training.test_resume import Stops, wait_for

torch.set_num_threads(1)

TINY = {"model": "tiny", "pretrained": False}


@cache
def fables() -> tuple[str, ...]:
    return tuple(read_texts([TextSource(source="fables/train")]))


def values(folder: Path, *, texts: int = 24, **tables: Any) -> dict[str, Any]:
    """Return a recipe for a tiny encoder on some fables, which saves a checkpoint after every step."""
    file = folder / "fables.txt"
    file.write_text("\n\n".join(fables()[:texts]), encoding="utf-8")
    options = {"batch_tokens": 1024, "lr": 3e-3, "checkpoint_minutes": 0, "threads": 1, "device": "cpu"}
    spans = {"questions": 1, "passage": 60}
    given = {"objective": "spans", "texts": [str(file)], "encoder": TINY, "length": 128, "holdout": 0.1, **tables}
    return given | {"spans": spans | tables.get("spans", {}), "train": options | tables.get("train", {})}


def recipe(folder: Path, **tables: Any) -> PretrainRecipe:
    return parse_pretrain_recipe(values(folder, **tables))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> PretrainingFolder:
    folder = tmp_path_factory.mktemp("spans")
    made = recipe(folder, texts=120, spans={"unanswerable": 0}, train={"epochs": 2, "evaluate_every": 0.1})
    return pretrain(made, folder / "out")


def test_held_out_score_rises(trained: PretrainingFolder) -> None:
    info = json.loads(trained.info.read_text())
    evaluations = [entry["evaluation"] for entry in entries(trained) if "evaluation" in entry]
    assert evaluations[-1]["balanced_f1"] > evaluations[0]["balanced_f1"] + 10
    assert evaluations[-1]["loss"] < evaluations[0]["loss"] - 1
    assert info["scores"] == {"after": evaluations[-1]}
    assert info["finished"] is True
    assert not trained.checkpoint.exists()
    assert trained.curve.read_bytes().startswith(b"\x89PNG")


def test_run_starts_from_the_encoder_and_the_head_of_the_folder(trained: PretrainingFolder, tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(json.dumps(to_squad(corpus(6))))
    fine = parse_recipe(
        {
            "data": {"train": str(tmp_path / "train.json"), "dev": str(tmp_path / "train.json"), "holdout": 0.2},
            "encoder": {"model": str(trained.path)},
            "head": {"start": str(trained.path)},
            "window": {"length": 64, "query": 16, "step": 16},
            "train": {"epochs": 0, "threads": 1, "device": "cpu", "seed": 5},
        }
    )
    run = train(fine, tmp_path / "run")
    ours, theirs = load_file(run.model), load_file(trained.model)
    assert ours.keys() <= theirs.keys()
    assert {"tasks.main.head.weight", "encoder.blocks.0.up.weight"} <= ours.keys()
    assert all(np.array_equal(value, theirs[name]) for name, value in ours.items())


def test_folder_answers_questions(trained: PretrainingFolder) -> None:
    assert Run.open(trained.path).finished
    reply = lamina.load(trained.path, device="cpu").answer("The first street of [MASK] was laid.", fables()[0])
    assert (reply.text or "") in fables()[0]


def test_command_names_both_starts(trained: PretrainingFolder, tmp_path: Path) -> None:
    file = tmp_path / "recipe.json"
    file.write_text(json.dumps(json.loads(trained.info.read_text())["recipe"]))
    done = command("pretrain", file, "--out", trained.path, "--resume")
    assert done.code == 0, done.err
    assert done.out.startswith("held out after: balanced f1 ")
    assert f"--set encoder.model={trained.path} --set head.start={trained.path}" in done.out


# ---- resuming


def result(out: Path) -> dict[str, Any]:
    """Return the files of a finished pretraining, without its costs."""
    files: dict[str, Any] = {path.name: path.read_bytes() for path in out.glob("[!.]*") if path.suffix != ".png"}
    for name in ("pretraining.json", "run.json"):
        files[name] = json.loads(files[name])
        assert files[name].pop("costs")["tokens"] > 0
    return files


def assert_same(found: dict[str, Any], whole: dict[str, Any]) -> None:
    assert {name for name in found.keys() | whole.keys() if found.get(name) != whole.get(name)} == set()


def test_stopped_pretraining_resumes_to_the_same_result(tmp_path: Path) -> None:
    """The run is stopped in the second epoch, whose questions are made again."""
    made = recipe(tmp_path, train={"epochs": 2})
    whole = result(pretrain(made, tmp_path / "whole").path)
    steps = whole["run.json"]["steps"]
    with pytest.raises(KeyboardInterrupt):
        pretrain(made, tmp_path / "out", progress=Stops(steps - 2))
    assert_same(result(pretrain(made, tmp_path / "out", resume=True).path), whole)


@pytest.mark.slow
def test_killed_pretraining_resumes_to_the_same_result(tmp_path: Path) -> None:
    file = tmp_path / "recipe.json"
    file.write_text(json.dumps(values(tmp_path, train={"epochs": 2, "batch_tokens": 512})))
    finished(file, tmp_path / "whole", "new")
    out = tmp_path / "killed"
    process = started(file, out, "new")
    wait_for(process, out, 10)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    finished(file, out, "resume")
    assert_same(result(out), result(tmp_path / "whole"))


def test_process_killed_between_its_two_records_is_finished(tmp_path: Path) -> None:
    made = recipe(tmp_path, train={"epochs": 0.5})
    folder = pretrain(made, tmp_path / "out")
    whole = folder.info.read_text()
    folder.info.write_text(json.dumps({"format": 1, "recipe": made.model_dump(mode="json"), "finished": False}))
    pretrain(made, tmp_path / "out", resume=True)
    assert json.loads(folder.info.read_text()) == json.loads(whole)


# ---- questions


def test_epochs_have_new_questions_and_the_held_out_ones_stay(tmp_path: Path) -> None:
    made = recipe(tmp_path)
    data = read_questions(made, read_corpus(made, Silent()), find(EncoderOptions(**TINY)))
    first, second = (data.train["main"].at(epoch).examples for epoch in (0, 1))
    assert first and second and first != second
    assert any(not example.answers for example in first)
    texts = read_corpus(made, Silent()).texts
    held_out = data.holdout["main"].examples
    assert held_out
    assert all(example.context not in " ".join(texts) for example in held_out if "[MASK]" not in example.context)
    windows = data.train["main"].windows
    assert not missing_the_answer(windows).any(), "a passage of 60 words fits into one window"


def test_mask_token_is_one_token(tmp_path: Path) -> None:
    made = epoch_dataset(fables()[:10], recipe(tmp_path), tokenizer(), 0)
    token = tokenizer().id_of(mask_token(tokenizer()))
    windows = made.windows
    for number, of in enumerate(windows.example):
        ids = windows.ids[windows.starts[number] : windows.starts[number + 1]]
        example = made.examples[of]
        assert (ids == token).sum() == (example.question + example.context).count("[MASK]")


def test_another_process_makes_the_same_questions(tmp_path: Path) -> None:
    make = partial(epoch_dataset, fables()[:20], recipe(tmp_path), tokenizer(), 3)
    there, here = BackgroundCall(make), make()
    assert there.result().examples == here.examples
    assert there.result().windows.fingerprint == here.windows.fingerprint


@pytest.mark.parametrize("ending", [".txt.xz", ".md"])
def test_packed_texts_give_the_same_questions(tmp_path: Path, ending: str) -> None:
    plain = recipe(tmp_path)
    content = (tmp_path / "fables.txt").read_bytes()
    file = tmp_path / f"other{ending}"
    file.write_bytes(lzma.compress(content) if ending.endswith("xz") else content)
    packed = parse_pretrain_recipe(values(tmp_path) | {"texts": [str(file)]})
    source = find(EncoderOptions(**TINY))
    examples = [read_questions(one, read_corpus(one, Silent()), source).train["main"].examples for one in (plain, packed)]
    assert examples[0] == examples[1]


def test_time_budget_and_no_held_out_split(tmp_path: Path) -> None:
    heard = Heard()
    folder = pretrain(recipe(tmp_path, holdout=0, train={"minutes": 0.01}), tmp_path / "out", progress=heard)
    assert any("measuring the speed" in line for line in heard.lines)
    assert json.loads(folder.info.read_text())["scores"] == {}
    assert json.loads(Run(folder.path).info.read_text())["steps"] >= 1


# ---- mistakes


def test_texts_without_questions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("Too short.\n\nAlso too short.\n\nThis one too.")
    made = parse_pretrain_recipe(values(tmp_path) | {"texts": [str(tmp_path / "short.txt")]})
    with pytest.raises(LaminaError, match=r"texts: no question can be made .* Fix: name more or longer texts"):
        pretrain(made, tmp_path / "out")
    assert not (tmp_path / "out").exists(), "no folder is made"


def test_vocabulary_without_a_mask_token(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(tokenizer().definition.replace("[MASK]", "[unused]"))
    encoder = TINY | {"tokenizer": str(file)}
    with pytest.raises(LaminaError, match=r"has no mask token .* Fix: choose an encoder"):
        pretrain(recipe(tmp_path, encoder=encoder), tmp_path / "out")
    words = {"kinds": ["cloze"], "blank": "question_word"}
    assert pretrain(recipe(tmp_path, encoder=encoder, spans=words, train={"epochs": 0.1}), tmp_path / "out").finished


def test_too_long_windows_and_changed_texts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match="length: is 999, but the encoder has"):
        pretrain(recipe(tmp_path, length=999), tmp_path / "long")
    made = recipe(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        pretrain(made, tmp_path / "out", progress=Stops(2))
    recipe(tmp_path, texts=20)
    with pytest.raises(LaminaError, match="the training texts changed since this run began"):
        pretrain(made, tmp_path / "out", resume=True)


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        ({"objective": "spans", "shape": "tiny"}, 'shape: has no effect with objective = "spans". Fix: leave shape out'),
        ({"objective": "spans", "nsp": {}}, "nsp: has no effect"),
        ({"objective": "spans", "train": {"head_lr": 1e-3}}, "train.head_lr: has no effect"),
        ({"spans": {"questions": 1}}, 'spans: has no effect with objective = "masked". Fix: leave spans out'),
        ({"train": {"minutes": 1}}, "train.minutes: has no effect"),
        ({"objective": "span"}, "objective: Input should be 'masked' or 'spans'"),
        ({"objective": "spans", "spans": {"unanswerable": 1}}, "spans.unanswerable: Input should be less than 1"),
    ],
)
def test_mistakes_in_a_recipe_raise_one_line(tables: dict[str, Any], line: str) -> None:
    with pytest.raises(LaminaError) as raised:
        parse_pretrain_recipe({"texts": ["a.txt"], **tables})
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)
