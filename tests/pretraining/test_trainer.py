"""Pretraining: the held-out loss falls, a killed run resumes, and the folder is a checkpoint."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from lamina.config.bundled import pretraining_folder, recipe_names, recipe_path
from lamina.config.parse import parse_recipe
from lamina.data.squad import to_squad
from lamina.encoder.load import EncoderOptions, find, load
from lamina.errors import LaminaError, LaminaWarning
from lamina.pretraining.corpus import read_corpus
from lamina.pretraining.folder import PretrainingFolder
from lamina.pretraining.loss_curve import Entry, draw_loss_curve, loss_curves
from lamina.pretraining.pretrain_recipe import PretrainRecipe, parse_pretrain_recipe, read_pretrain_recipe
from lamina.pretraining.texts import exclude_texts, read_texts
from lamina.pretraining.trainer import pretrain
from lamina.training.trainer import train
from lamina.utils.progress import Silent
from lamina.utils.run_folder import Run
from tests.command import lamina
from tests.tiny import Heard, corpus
from tests.training.test_resume import PATIENCE, Stops, wait_for

torch.set_num_threads(1)

DRIVER = """
import sys
from pathlib import Path
from lamina.pretraining.pretrain_recipe import read_pretrain_recipe
from lamina.pretraining.trainer import pretrain

pretrain(read_pretrain_recipe(Path(sys.argv[1])), Path(sys.argv[2]), resume=sys.argv[3] == "resume")
"""


def values(folder: Path, **tables: Any) -> dict[str, Any]:
    """Return a recipe for a tiny encoder from scratch that saves a checkpoint after every step."""
    texts = list(dict.fromkeys(example.context for example in corpus(40)))
    (folder / "tales.txt").write_text("\n\n".join(texts), encoding="utf-8")
    train = {"batch_tokens": 512, "lr": 3e-3, "checkpoint_minutes": 0, "threads": 1, "device": "cpu", "epochs": 3}
    shape = {"layers": 1, "hidden": 32, "heads": 2, "dropout": 0.1}
    begin = {} if "encoder" in tables else {"shape": shape, "vocabulary": {"size": 400}}
    given = {"texts": [str(folder / "tales.txt")], "length": 32, "holdout": 0.1, **begin, **tables}
    return given | {"train": train | tables.get("train", {})}


def recipe(folder: Path, **tables: Any) -> PretrainRecipe:
    return parse_pretrain_recipe(values(folder, **tables))


def entries(folder: PretrainingFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in folder.metrics.read_text().splitlines()]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> PretrainingFolder:
    """Pretrain from scratch, with both heads."""
    folder = tmp_path_factory.mktemp("scratch")
    made = recipe(folder, nsp={}, packed="none", train={"epochs": 12, "evaluate_every": 4})
    return pretrain(made, folder / "out")


def test_held_out_loss_falls(scratch: PretrainingFolder) -> None:
    info = json.loads(scratch.info.read_text())
    before, after = info["scores"]["before"], info["scores"]["after"]
    assert after["loss"] < before["loss"] - 1
    assert after["perplexity"] < before["perplexity"] / 2
    assert after["accuracy"] > 0.15
    assert {"nsp_loss", "nsp_accuracy"} <= after.keys()
    assert info["finished"] is True
    assert not scratch.checkpoint.exists()
    evaluations = [entry["step"] for entry in entries(scratch) if "evaluation" in entry]
    assert evaluations[0] == 0
    assert evaluations[-1] == info["steps"]


def test_transformers_loads_the_folder(scratch: PretrainingFolder) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(scratch.path)
    model = transformers.AutoModelForMaskedLM.from_pretrained(scratch.path).eval()
    assert tokenizer.mask_token_id == 4
    encoded = tokenizer("The heron lives in a ruined [MASK] by the sea.", return_tensors="pt")
    assert encoded["token_type_ids"].sum() == 0
    with torch.inference_mode():
        logits = model(**encoded).logits
    assert logits.shape[-1] == model.config.vocab_size == len(tokenizer)
    assert tokenizer("a b", "c")["input_ids"][0] == tokenizer.cls_token_id
    assert not Run(scratch.path).exists
    assert not Run(scratch.path).recipe.exists()


def test_recipe_starts_from_the_folder(scratch: PretrainingFolder, tmp_path: Path) -> None:
    source = find(EncoderOptions(model=str(scratch.path)))
    assert source.config.pooler
    weights = load(source).state_dict()
    assert weights["blocks.0.up.weight"].shape == (128, 32)
    (tmp_path / "train.json").write_text(json.dumps(to_squad(corpus(6))))
    fine = parse_recipe(
        {
            "data": {"train": str(tmp_path / "train.json"), "dev": str(tmp_path / "train.json"), "holdout": 0.2},
            "encoder": {"model": str(scratch.path)},
            "window": {"length": 64, "query": 16, "step": 16},
            "train": {"epochs": 0.5, "threads": 1, "device": "cpu"},
        }
    )
    assert train(fine, tmp_path / "run").finished


def test_pretraining_continues_with_the_folders_own_head(scratch: PretrainingFolder, tmp_path: Path) -> None:
    heard = Heard()
    more = recipe(tmp_path, encoder={"model": str(scratch.path)}, train={"epochs": 1})
    folder = pretrain(more, tmp_path / "more", progress=heard)
    assert any("the head for masked tokens is loaded from the checkpoint" in line for line in heard.lines)
    info = json.loads(folder.info.read_text())
    assert info["scores"]["before"]["loss"] < json.loads(scratch.info.read_text())["scores"]["before"]["loss"] - 1
    assert {entry["part"] for entry in entries(folder) if "part" in entry} == {"all"}


def test_new_head_first_trains_alone(tmp_path: Path) -> None:
    """Start from a checkpoint without a head. The loss is measured after the steps of the head."""
    pretrained = pretrain(recipe(tmp_path, train={"epochs": 1}), tmp_path / "base")
    strip = tmp_path / "headless"
    transformers.AutoModel.from_pretrained(pretrained.path).save_pretrained(strip)
    transformers.AutoTokenizer.from_pretrained(pretrained.path).save_pretrained(strip)
    folder = pretrain(recipe(tmp_path, encoder={"model": str(strip)}, head_first=0.5), tmp_path / "out")
    parts = [entry["part"] for entry in entries(folder) if "part" in entry]
    alone = parts.count("head")
    assert alone == round(0.5 * len(parts))
    assert parts == ["head"] * alone + ["all"] * (len(parts) - alone)
    assert alone in [entry["step"] for entry in entries(folder) if "evaluation" in entry]
    rates = [entry["lr"] for entry in entries(folder) if "lr" in entry]
    assert max(rates[:alone]) <= 3e-3
    assert max(rates[alone:]) <= 3e-3
    assert rates[alone - 1] < rates[alone + 1], "head and encoder have their own schedules"
    never = pretrain(recipe(tmp_path, encoder={"model": str(strip)}, head_first=0), tmp_path / "never")
    assert {entry["part"] for entry in entries(never) if "part" in entry} == {"all"}


def test_encoder_does_not_change_while_the_head_trains(tmp_path: Path) -> None:
    made = recipe(tmp_path, encoder={"model": "minilm"}, head_first=0.9, train={"epochs": 1, "batch_tokens": 200})
    with pytest.raises(KeyboardInterrupt):
        pretrain(made, tmp_path / "out", progress=Stops(3))
    content = torch.load(tmp_path / "out" / "checkpoint.pt", weights_only=True)
    before = load(find(EncoderOptions())).state_dict()
    stored = content["weights"]
    assert content["state"]["step"] == 2
    assert all(torch.equal(stored[f"encoder.{name}"], value) for name, value in before.items() if not name.startswith("pooler"))
    assert stored["transform.bias"].abs().max() > 0


# ---- resuming


def result(out: Path) -> dict[str, Any]:
    """Return the files of a finished pretraining, without its costs."""
    files = {
        path.name: path.read_bytes() for path in out.glob("[!.]*") if path.suffix != ".png" and path.name != "pretraining.json"
    }
    info = json.loads((out / "pretraining.json").read_bytes())
    assert info.pop("costs")["tokens"] > 0
    assert {"model.safetensors", "metrics.jsonl", "tokenizer.json", "config.json"} <= files.keys()
    return files | {"pretraining.json": info}


def started(file: Path, out: Path, how: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", DRIVER, str(file), str(out), how], stderr=subprocess.PIPE)


def finished(file: Path, out: Path, how: str) -> None:
    process = started(file, out, how)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors.decode()


@pytest.mark.slow
def test_killed_pretraining_resumes_to_the_same_result(tmp_path: Path) -> None:
    file = tmp_path / "recipe.json"
    made = values(tmp_path, nsp={}, mask={"whole_words": True}, train={"epochs": 6, "memory_tokens": 256})
    file.write_text(json.dumps(made))
    finished(file, tmp_path / "whole", "new")
    whole = result(tmp_path / "whole")
    assert whole["metrics.jsonl"].count(b'"mlm_loss"') >= 24
    out = tmp_path / "killed"
    chance = random.Random(os.urandom(8))
    kills = 0
    for how, lines in (("new", 3), ("resume", 14)):
        process = started(file, out, how)
        wait_for(process, out, lines)
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills >= 1
    finished(file, out, "resume")
    found = result(out)
    assert {name for name in found.keys() | whole.keys() if found.get(name) != whole.get(name)} == set()


def test_pretraining_is_not_overwritten_and_rejects_another_recipe(tmp_path: Path) -> None:
    made = recipe(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        pretrain(made, tmp_path / "out", progress=Stops(2))
    with pytest.raises(LaminaError, match=r"already has a pretraining\. Fix: continue it with --resume"):
        pretrain(made, tmp_path / "out")
    with pytest.raises(LaminaError, match=r"the recipe has changed since it began \(length: 32 then, 16 now\)"):
        pretrain(recipe(tmp_path, length=16), tmp_path / "out", resume=True)
    with pytest.raises(LaminaError, match="already exists and is not a pretraining"):
        pretrain(made, tmp_path)
    (tmp_path / "tales.txt").write_text("Other texts.\n\nFrom another world.\n\nAnd more.")
    with pytest.raises(LaminaError, match="the texts changed since this pretraining began"):
        pretrain(made, tmp_path / "out", resume=True)


def test_finished_pretraining_is_not_changed(scratch: PretrainingFolder) -> None:
    before = result(scratch.path)
    heard = Heard()
    made = parse_pretrain_recipe(json.loads(scratch.info.read_text())["recipe"])
    assert pretrain(made, scratch.path, resume=True, progress=heard).finished
    assert any("already finished" in line for line in heard.lines)
    assert result(scratch.path) == before


# ---- recipes and the command


@pytest.mark.parametrize("name", recipe_names(pretraining_folder()))
def test_bundled_recipe_parses_and_states_its_command(name: str) -> None:
    path = recipe_path(name, pretraining_folder())
    first, second, third = path.read_text(encoding="utf-8").splitlines()[:3]
    assert first.startswith(f"# lamina pretrain {name} --out ")
    assert second.startswith("# Time: ")
    assert third.startswith("# Score: ")
    assert read_pretrain_recipe(path).texts


@pytest.mark.parametrize("name", recipe_names(pretraining_folder()))
def test_bundled_recipe_trains(name: str, tmp_path: Path) -> None:
    """Train the recipe on a few texts with a small encoder."""
    values(tmp_path)
    texts = json.dumps([str(tmp_path / "tales.txt")])
    settings = [f"texts={texts}", "exclude=[]", "length=32", "train.epochs=0.2", "train.threads=1", "train.batch_tokens=512"]
    made = read_pretrain_recipe(recipe_path(name, pretraining_folder()), settings)
    small = ["encoder.model=tiny", "encoder.pretrained=false"] if made.shape is None else ["shape=tiny", "vocabulary.size=400"]
    made = read_pretrain_recipe(recipe_path(name, pretraining_folder()), [*settings, *small])
    assert pretrain(made, tmp_path / "out").finished


def test_recipes_of_paper_002_exclude_the_dev_sets(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(shared / "data"))
    made = read_pretrain_recipe(recipe_path("minbert", pretraining_folder()))
    (quora,) = (source for source in made.texts if "quora" in source.source)
    with pytest.warns(LaminaWarning, match="skipped 2 broken rows"):
        texts = set(exclude_texts(read_texts(made.texts), made.exclude))
        everything = set(read_texts([quora.model_copy(update={"skip_every": None})]))
    assert "What can you get as a customer of Star Alliance?" in everything - texts, "row 0 is in the dev set"
    assert "Grammar: What are the most common English language and grammatical errors made by people from India?" in texts
    assert len(everything - texts) > 3000
    assert not texts & set(read_texts(made.exclude))


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        ({"texts": []}, "texts: is missing. Fix: name the texts to train on"),
        ({"encoder": {}, "shape": "tiny"}, "shape: the recipe has an encoder too. Fix: leave out either encoder or shape"),
        ({"encoder": {}, "vocabulary": {}}, "vocabulary: an encoder has its own"),
        ({"shape": "tinny"}, "there is no 'tinny'. Fix: did you mean tiny?"),
        (
            {"shape": {"layers": 1, "hidden": 10, "heads": 3}},
            "hidden = 10 cannot be divided into 3 equal heads. Fix: choose a multiple",
        ),
        ({"mask": {"shares": 0.1}}, "mask.shares: no such field. Fix: did you mean mask.share?"),
        ({"texts": [{"source": "a", "colums": ["b"]}]}, "no such field. Fix: did you mean texts.0.columns?"),
        ({"packed": "tight"}, "packed: Input should be 'join' or 'none' (given: 'tight')"),
        ({"train": {"lr": 0}}, "train.lr: Input should be greater than 0"),
    ],
)
def test_mistakes_in_a_recipe_raise_one_line(tables: dict[str, Any], line: str) -> None:
    with pytest.raises(LaminaError) as raised:
        parse_pretrain_recipe({"texts": ["a.txt"], **tables})
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_mistakes_that_need_the_files_raise(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match=r"nowhere\.txt: no such data"):
        pretrain(recipe(tmp_path, texts=["nowhere.txt"]), tmp_path / "out")
    tales = str(tmp_path / "tales.txt")
    with pytest.raises(LaminaError, match="no texts besides the excluded ones"):
        pretrain(recipe(tmp_path, exclude=[tales]), tmp_path / "out")
    assert not (tmp_path / "out").exists(), "no folder is made"
    with pytest.raises(LaminaError, match="length: is 999, but the encoder has 512 positions"):
        pretrain(recipe(tmp_path, length=999), tmp_path / "long")
    with pytest.raises(LaminaError, match=r"nsp: needs two token types and a pooler.*\(electra\)"):
        pretrain(recipe(tmp_path, encoder={"model": "electra-small", "pretrained": False}, nsp={}), tmp_path / "electra")
    with pytest.raises(LaminaError, match=r"vocabulary\.size: 20 is too small"):
        pretrain(recipe(tmp_path, vocabulary={"size": 20}), tmp_path / "small")


def test_pretrain_command(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(values(tmp_path)))
    done = lamina("pretrain", file, "--out", tmp_path / "out", "--set", "train.epochs=1", "--vocab-size", 300, "--json")
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["scores"].keys() == {"before", "after"}
    assert printed["costs"]["tokens"] > 0
    assert json.loads((tmp_path / "out" / "config.json").read_text())["vocab_size"] <= 300
    again = lamina("pretrain", file, "--out", tmp_path / "out", "--set", "train.epochs=1", "--vocab-size", 300, "--resume")
    assert again.code == 0
    assert again.out.startswith("held out before: loss ")
    assert f"--set encoder.model={tmp_path / 'out'}" in again.out
    wrong = lamina("pretrain", "sentence", "--out", tmp_path / "x")
    assert (wrong.code, wrong.err) == (2, "lamina: sentence: no such recipe file or name. Fix: did you mean sentences?\n")


def test_pairs_train_next_sentences(tmp_path: Path) -> None:
    """Train next sentences on paraphrases as pairs that follow each other, as paper 002 proposes."""
    facts = [example for example in corpus(30) if example.answers]
    rows = [f"{e.question},{e.question},1\n{e.question},{facts[-n - 1].question},0\n" for n, e in enumerate(facts)]
    (tmp_path / "pairs.csv").write_text("a,b,same\n" + "".join(rows))
    nsp = {"pairs": [{"source": str(tmp_path / "pairs.csv"), "columns": ["a", "b"], "label": "same"}]}
    folder = pretrain(recipe(tmp_path, texts=[], nsp=nsp, train={"epochs": 2}), tmp_path / "out")
    scores = json.loads(folder.info.read_text())["scores"]["after"]
    assert 0 <= scores["nsp_accuracy"] <= 1
    assert scores["nsp_loss"] < 0.8


def test_excluded_texts_are_in_no_pair(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("a,b,same\none,two,1\nthree,four,0\nfive,six,1\n")
    (tmp_path / "dev.txt").write_text("four")
    nsp = {"pairs": [{"source": str(tmp_path / "pairs.csv"), "columns": ["a", "b"], "label": "same"}]}
    made = recipe(tmp_path, texts=[], nsp=nsp, exclude=[{"source": str(tmp_path / "dev.txt")}], holdout=0)
    assert read_corpus(made, Silent()).pairs == [("one", "two", True), ("five", "six", True)]


def test_held_out_texts_are_not_in_the_training_texts_or_pairs(tmp_path: Path) -> None:
    rows = "".join(f"text {number},text {number + 1},1\n" for number in range(100))
    (tmp_path / "pairs.csv").write_text("a,b,same\n" + rows)
    table = {"source": str(tmp_path / "pairs.csv"), "columns": ["a", "b"]}
    corpus = read_corpus(recipe(tmp_path, texts=[table], nsp={"pairs": [table | {"label": "same"}]}, holdout=0.1), Silent())
    learned = {*corpus.texts, *(text for pair in corpus.pairs for text in pair[:2])}
    held_out = {*corpus.held_out, *(text for pair in corpus.held_out_pairs for text in pair[:2])}
    assert len(corpus.held_out_pairs) == 10 and learned.isdisjoint(held_out)


def test_nsp_on_one_text_raises(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("One heron. Two herons. Three herons.")
    made = recipe(tmp_path, texts=[{"source": str(tmp_path / "one.txt")}], nsp={}, packed="none", holdout=0)
    with pytest.raises(LaminaError, match=r"nsp: random pairs need at least two texts of several sentences\. Fix: add texts"):
        pretrain(made, tmp_path / "out")


def test_pretraining_without_a_held_out_split(tmp_path: Path) -> None:
    folder = pretrain(recipe(tmp_path, holdout=0, train={"epochs": 0.5}), tmp_path / "out")
    assert json.loads(folder.info.read_text())["scores"] == {}
    assert not [entry for entry in entries(folder) if "evaluation" in entry]


# ---- the curve


def test_curve_needs_matplotlib(scratch: PretrainingFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # cannot be imported
    complaint = draw_loss_curve(scratch.metrics, tmp_path / "curve.png")
    assert complaint is not None
    assert "lamina-qa[plots]" in complaint
    assert not (tmp_path / "curve.png").exists()


def test_curve_is_a_png(scratch: PretrainingFolder, tmp_path: Path) -> None:
    assert draw_loss_curve(scratch.metrics, tmp_path / "curve.png") is None
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_curves_are_averaged() -> None:
    steps: list[Entry] = [{"step": n + 1, "mlm_loss": float(n)} for n in range(200)]
    training, held_out = loss_curves([*steps, {"step": 200, "evaluation": {"loss": 3.0}}])
    assert len(training) == 50
    assert training[0] == (2.5, 1.5)
    assert held_out == [(200, 3.0)]
