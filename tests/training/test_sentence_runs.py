"""Runs of several sentence tasks with one encoder: training and use."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import lamina
from lamina.answers.saved_outputs import load_arrays
from lamina.config.build import build_model
from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.data.fables.sentences import make_sentences
from lamina.encoder import load as encoders
from lamina.encoder.load import load_tokenizer
from lamina.errors import LaminaError, LaminaWarning
from lamina.reader.load import Reader
from lamina.runs.load import Trained
from lamina.scoring.sentence import pearson
from lamina.tasks.checks import build_on_meta, resolved
from lamina.tasks.kind import FileCache
from lamina.tasks.sentences import SENTENCES
from lamina.training import trainer
from lamina.training.learning_curves import draw_curves, unit_of
from lamina.utils.run_folder import Run
from tests.command import lamina as command
from tests.resuming import stopped_and_resumed
from tests.tiny import Heard

TASKS = ("sentiment", "paraphrase", "similarity")
HEADS: dict[str, dict[str, Any]] = {
    "sentiment": {"head": {"type": "classification"}},
    "paraphrase": {"head": {"type": "cosine"}},
    "similarity": {"head": {"type": "cosine"}, "objective": {"type": "mse"}},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sentences")
    for task, split in itertools.product(TASKS, ("train", "dev")):
        rows = [
            "\t".join(filter(None, (s.id, s.first, s.second, s.label)))
            for s in make_sentences(task, split, count=90 if split == "train" else 30)  # type: ignore[arg-type]
        ]
        names = ("id", "sentence", "label") if task == "sentiment" else ("id", "sentence1", "sentence2", "label")
        (folder / f"{task}-{split}.tsv").write_text("\n".join(["\t".join(names), *rows]) + "\n", encoding="utf-8")
    return folder


def recipe(data: Path, tasks: tuple[str, ...] = TASKS, *settings: str, **tables: dict[str, Any]) -> Recipe:
    values = {
        "tasks": {
            name: {"data": {"train": str(data / f"{name}-train.tsv"), "dev": str(data / f"{name}-dev.tsv"), "holdout": 0.2}}
            | HEADS[name]
            for name in tasks
        },
        "encoder": {"model": "tiny", "pretrained": False},
        "window": {"length": 64, "query": 16, "step": 16},
        "train": {"epochs": 1, "threads": 1, "lr": 1e-3, "batch_windows": 16},
    }
    return parse_recipe(values | tables, settings)


def entries(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trainer.train(recipe(data, TASKS, "train.curves=true", "train.epochs=2"), tmp_path_factory.mktemp("run") / "run")


# ---- the files of a run


def test_run_of_three_tasks_writes_its_files(run: Run, data: Path) -> None:
    scores = json.loads(run.scores.read_text())
    assert set(scores) == {*TASKS, "overall"}
    assert scores["overall"]["mean"] == pytest.approx(
        (scores["sentiment"]["accuracy"] + scores["paraphrase"]["accuracy"] + scores["similarity"]["pearson"]) / 3
    )
    assert sum(scores["sentiment"]["predicted"].values()) == pytest.approx(1)
    assert set(scores["similarity"]["pearson_of_maps"]) == {"bins", "cut"}
    for task in TASKS:
        predictions = json.loads(run.task(task).predictions.read_text())
        dev = {sentence.id for sentence in make_sentences(task, "dev", count=30)}  # type: ignore[arg-type]
        assert set(predictions) == dev
    pairs = make_sentences("similarity", "dev", count=30)
    predicted = json.loads(run.task("similarity").predictions.read_text())
    gold = [float(pair.label or "") for pair in pairs]
    assert scores["similarity"]["pearson"] == pytest.approx(pearson([predicted[pair.id] for pair in pairs], gold), abs=1e-6)
    assert scores["similarity"]["pearson_of_cosine"] == pytest.approx(scores["similarity"]["pearson"], abs=0.1)
    written = json.loads(run.recipe.read_text())["tasks"]
    assert written["sentiment"]["data"]["classes"] == ["0", "1", "2", "3", "4"], "read from the data and stored"
    assert written["similarity"]["data"]["scores"] == [0, 5]
    assert json.loads(run.info.read_text())["tasks"]["paraphrase"].keys() == {"type", "threshold"}


def test_curves_are_logged_and_drawn(run: Run) -> None:
    curves = [entry for entry in entries(run) if "curve" in entry]
    assert [entry["epochs"] for entry in curves] == [1, 2]
    assert curves[0]["curve"].keys() == {"train", "dev"}
    assert curves[0]["curve"]["dev"].keys() >= {"sentiment.accuracy", "paraphrase.accuracy", "similarity.pearson"}
    assert curves[0]["curve"]["dev"].keys() >= {f"{task}.loss" for task in TASKS}
    assert run.curves.read_bytes().startswith(b"\x89PNG")


def test_run_that_ended_within_its_first_epoch_has_no_curves(data: Path, tmp_path: Path) -> None:
    short, heard = Run(tmp_path), Heard()
    short.metrics.write_text('{"step": 1, "epoch": 0, "loss": 2.5}\n')
    draw_curves(short, recipe(data, TASKS), heard)
    assert heard.lines == ["no curves.png: training ended before the first point of its curves"]
    assert not short.curves.exists()


def test_units_of_curves(data: Path) -> None:
    three, one = recipe(data, TASKS), recipe(data, ("similarity",))
    found = [unit_of(metric, three) for metric in ("sentiment.accuracy", "similarity.pearson", "paraphrase.loss")]
    assert found == ["share", "correlation", "loss"]
    assert [unit_of(metric, one) for metric in ("pearson", "loss")] == ["correlation", "loss"]


def test_curves_do_not_change_training(run: Run, data: Path, tmp_path: Path) -> None:
    plain = trainer.train(recipe(data, TASKS, "train.epochs=2"), tmp_path / "run")
    assert plain.model.read_bytes() == run.model.read_bytes()


def test_each_step_logs_the_loss_of_its_task(run: Run) -> None:
    steps = [entry for entry in entries(run) if "losses" in entry]
    assert [next(iter(entry["losses"])) for entry in steps[:4]] == ["sentiment", "paraphrase", "similarity", "sentiment"]
    assert all(entry["loss"] == sum(entry["losses"].values()) for entry in steps)


# ---- training


HARD = (
    "train.sampling=combined",
    "train.gradients=pcgrad",
    "terms.smart.step=0.1",
    "tasks.paraphrase.terms.ranking.weight=0.5",
    "tasks.sentiment.weight=2.0",
    "train.curves=true",
    "train.checkpoint_minutes=0",
    "train.epochs=1.5",
)


def test_stopped_and_resumed_run_with_many_options_ends_the_same(data: Path, tmp_path: Path) -> None:
    made = recipe(data, TASKS, *HARD)
    whole = trainer.train(made, tmp_path / "whole")
    part = stopped_and_resumed(made, tmp_path / "part", before=4)
    assert part.metrics.read_bytes() == whole.metrics.read_bytes()
    assert part.model.read_bytes() == whole.model.read_bytes()
    assert part.scores.read_bytes() == whole.scores.read_bytes()


def test_the_terms_of_several_tasks_have_the_name_of_their_task(data: Path, tmp_path: Path) -> None:
    """A step records the terms of its own task only, with the weight of the task."""
    settings = ("tasks.sentiment.terms.distil.window=1", "tasks.sentiment.weight=0.5", "encoder.dropout=0")
    whole = recipe(data, ("sentiment", "paraphrase"), *settings, "train.checkpoint_minutes=0")
    run = trainer.train(whole, tmp_path / "run")
    steps = [entry for entry in entries(run) if "losses" in entry]
    for entry in steps:
        assert list(entry.get("terms", {})) == (["sentiment.distil"] if "sentiment" in entry["losses"] else [])
    values = [entry["terms"]["sentiment.distil"] for entry in steps if "terms" in entry]
    assert values[0] == 0.0
    assert min(values[1:]) > 0
    resumed = stopped_and_resumed(whole, tmp_path / "part", before=4)
    assert resumed.metrics.read_bytes() == run.metrics.read_bytes()


@pytest.mark.parametrize("mixer", ["dot", "multiplicative"])
def test_a_run_whose_classes_attend_to_the_layers_is_used_like_any_other(data: Path, tmp_path: Path, mixer: str) -> None:
    run = trainer.train(recipe(data, ("sentiment",), f"mixer.type={mixer}"), tmp_path / "run")
    reader = lamina.load(run.path)
    texts = ["the owl sings well", "the mill burnt down and everybody cried"]
    found = reader.classify(texts)
    assert [one.label for one in reader.classify(texts[:1])] == [found[0].label]
    vectors = reader.embed(texts)
    assert vectors.shape[0] == 2
    assert np.isfinite(vectors).all()
    assert not np.allclose(vectors[0], vectors[1])


def losses(run: Run) -> list[float]:
    return [entry["loss"] for entry in entries(run) if "loss" in entry]


def test_micro_batches_sum_to_the_step(data: Path, tmp_path: Path) -> None:
    still = ("encoder.dropout=0.0", "tasks.sentiment.head.dropout=0.0", "train.sampling=combined")
    whole = trainer.train(recipe(data, TASKS, *still), tmp_path / "whole")
    cut = trainer.train(recipe(data, TASKS, *still, "train.memory_tokens=128"), tmp_path / "cut")
    assert losses(cut) == pytest.approx(losses(whole), rel=1e-4)


def test_task_weight_multiplies_its_loss(data: Path, tmp_path: Path) -> None:
    settings = ("train.sampling=combined", "train.lr=1e-9")
    one = trainer.train(recipe(data, TASKS, *settings), tmp_path / "one")
    two = trainer.train(recipe(data, TASKS, *settings, "tasks.similarity.weight=3.0"), tmp_path / "two")
    for before, after in zip(entries(one), entries(two), strict=True):
        if "losses" in before:
            assert after["losses"]["similarity"] == pytest.approx(3 * before["losses"]["similarity"], rel=1e-3)
            assert after["losses"]["sentiment"] == pytest.approx(before["losses"]["sentiment"], rel=1e-3)


@pytest.mark.parametrize("choice", ["mean", "similarity"])
def test_checkpoint_is_chosen_by_the_mean_or_by_a_task(data: Path, tmp_path: Path, choice: str) -> None:
    run = trainer.train(recipe(data, TASKS, f"train.choose={choice}"), tmp_path / "run")
    found = [entry for entry in entries(run) if "evaluation" in entry]
    name = "mean" if choice == "mean" else "similarity.pearson"
    best = max(found, key=lambda entry: float(entry["evaluation"][name]))
    assert json.loads(run.info.read_text())["chosen_step"] == best["step"]


@pytest.mark.parametrize("layers", [0, 1])
def test_stored_states_train_as_the_live_encoder(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: int
) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    mixed = ("tasks.sentiment.head.pooling=cls", "tasks.paraphrase.mixer.type=learned", f"tune.layers={layers}")
    settings = (*mixed, "cache.dtype=float32", "encoder.dropout=0.0", "tasks.similarity.head.type=concatenation")
    live = trainer.train(recipe(data, TASKS, *settings, "cache.use=never"), tmp_path / "live")
    stored = trainer.train(recipe(data, TASKS, *settings, "cache.use=always"), tmp_path / "stored")
    assert losses(stored) == pytest.approx(losses(live), abs=1e-5)


def test_head_without_weights_on_a_frozen_encoder_raises(data: Path, tmp_path: Path) -> None:
    with pytest.raises(
        LaminaError, match=r"the loss of task .similarity. depends on no trainable parameter\. Fix: raise tune\.layers"
    ):
        trainer.train(recipe(data, ("similarity",), "tune.layers=0", "cache.use=never"), tmp_path / "run")


def test_questions_and_sentences_share_an_encoder(data: Path, tmp_path: Path) -> None:
    made = recipe(data, ("similarity",)).model_dump(mode="json")
    made["tasks"]["answers"] = {"data": {"train": "fables/train", "dev": "fables/dev", "questions": 60, "dev_questions": 20}}
    made["train"]["batch_windows"] = 8
    made["tasks"]["answers"]["mixer"] = {"type": "learned"}
    run = trainer.train(parse_recipe(made), tmp_path / "run")
    scores = json.loads(run.scores.read_text())
    assert scores.keys() == {"similarity", "answers"}
    assert scores["answers"]["tuned"]["total"] == 20
    reader = lamina.load(run.path)
    assert reader.threshold == json.loads(run.info.read_text())["tasks"]["answers"]["threshold"]
    assert reader.answer("Who built the mill?", "The mill was built by Ada Thorn.", threshold=1e9).text
    assert isinstance(reader.similarity("a mill", "the mill"), float)
    shown = command("ask", "--model", run.path, "--text", "The mill was built by Ada Thorn.", "Who built the mill?")
    assert shown.code == 0
    assert lamina.pipeline("question-answering", model=str(run.path))(question="Who?", context="Ada Thorn built it.")["answer"]
    for words in (("layers", run.path, "--data", "fables/dev", "--questions", "3"), ("compare", run.path, run.path)):
        shown = command(*words)
        assert shown.code == 0, shown.err
    shown = command("evaluate", run.path, "--data", data / "similarity-dev.tsv", "--task", "similarity")
    assert shown.out.startswith("pearson")
    assert command("evaluate", run.path, "--data", data / "similarity-dev.tsv").code == 2, "questions are the default task"


def test_smart_with_stored_states_raises(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    made = recipe(data, ("sentiment",), "terms.smart.weight=1.0", "tune.layers=0", "cache.use=always")
    with pytest.raises(LaminaError, match=r"but terms\.smart of task .sentiment. changes the embeddings"):
        trainer.train(made, tmp_path / "run")


# ---- splits of the data


def test_every_eighth_row_is_the_dev_set_and_is_not_trained_on(data: Path) -> None:
    values = recipe(data, ("paraphrase",)).model_dump(mode="json")
    values["tasks"]["paraphrase"]["data"] |= {"dev": None, "dev_every": 8}
    task = parse_recipe(values).tasks["paraphrase"]
    learned, held_out, scored = SENTENCES.splits(task, 0, FileCache())
    dev = {sentence.id for sentence in scored}
    assert len(dev) == -(-90 // 8)
    assert not dev & {sentence.id for sentence in (*learned, *held_out)}
    assert len(learned) + len(held_out) + len(dev) == 90


def test_per_class_limits_the_training_split(data: Path) -> None:
    made = recipe(data, ("sentiment",), "data.per_class=4", "data.holdout=0")
    learned = SENTENCES.splits(made.tasks["sentiment"], 0, FileCache()).train
    labels = [sentence.label for sentence in learned]
    assert {label: labels.count(label) for label in set(labels)} == dict.fromkeys("01234", 4)


def test_dev_per_class_limits_the_dev_set_alike_for_every_seed(data: Path) -> None:
    """Paper 002 scores 130 sentences of each class."""
    plain, made = (recipe(data, ("sentiment",), setting).tasks["sentiment"] for setting in ("weight=1", "data.dev_per_class=3"))
    whole = SENTENCES.splits(plain, 0, FileCache())
    one, two = (SENTENCES.splits(made, seed, FileCache()) for seed in (0, 1))
    labels = [sentence.label for sentence in one.dev]
    assert {label: labels.count(label) for label in set(labels)} == dict.fromkeys("01234", 3)
    assert one.dev == two.dev == SENTENCES.dev(made, FileCache())
    assert (one.train, one.holdout) == (whole.train, whole.holdout)


@pytest.mark.parametrize("field", ["per_class", "dev_per_class"])
def test_a_number_per_class_is_not_for_scores_of_the_data(data: Path, tmp_path: Path, field: str) -> None:
    line = rf"data\.{field}: is for classes, but the labels are scores\. Fix: remove data\.{field}"
    with pytest.raises(LaminaError, match=line):
        trainer.train(recipe(data, ("similarity",), f"data.{field}=3"), tmp_path / "run")


def test_cut_of_paper_002_decides_classes_at_a_cosine_of_one_half(data: Path, tmp_path: Path) -> None:
    """A logit of 1 at a cosine of 0.5 or more, whatever the trained logits and their threshold are."""
    run = trainer.train(recipe(data, ("paraphrase",), "head.map=cut"), tmp_path / "run")
    cosines = load_arrays(run)[0]["cosine"]
    pairs = make_sentences("paraphrase", "dev", count=30)
    predicted = json.loads(run.predictions.read_text())
    expected = ["1" if cosine >= 0.5 else "0" for cosine in cosines]
    assert [predicted[pair.id] for pair in pairs] == expected
    right = [label == pair.label for label, pair in zip(expected, pairs, strict=True)]
    assert json.loads(run.scores.read_text())["accuracy"] == pytest.approx(sum(right) / 30)
    assert json.loads(run.info.read_text())["tasks"]["paraphrase"]["threshold"] == 0
    found = lamina.load(run.path).classify([(pair.first, str(pair.second)) for pair in pairs])
    assert [one.label for one in found] == expected
    assert {round(one.confidence, 3) for one in found} == {0.731}
    analysis = command("analyze", run.path, "--json")
    assert analysis.code == 0, analysis.err
    assert json.loads(analysis.out)["runs"][0]["tasks"]["paraphrase"]["accuracy"] == pytest.approx(100 * sum(right) / 30)


def test_six_bins_are_not_for_classes(data: Path, tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match=r'head\.map: "bins" makes six scores, but the labels are two classes\. Fix: '):
        trainer.train(recipe(data, ("paraphrase",), "head.map=bins"), tmp_path / "run")


@pytest.mark.parametrize(("pooling", "layers", "trains"), [("pooler", 1, True), ("pooler", 0, False), ("cls", 1, False)])
def test_pooler_trains_with_the_last_layers_if_a_head_reads_it(data: Path, pooling: str, layers: int, *, trains: bool) -> None:
    made = recipe(data, ("sentiment",), f"head.pooling={pooling}", f"tune.layers={layers}")
    encoder = build_on_meta(resolved(made)).encoder
    assert encoder.pooler is not None
    assert encoder.pooler.weight.requires_grad == trains


def test_held_out_split_has_the_shares_of_classes(data: Path) -> None:
    recipes = [recipe(data, ("sentiment",), setting) for setting in ("weight=1", "data.per_class=4")]
    held = [SENTENCES.splits(made.tasks["sentiment"], 0, FileCache()).holdout for made in recipes]
    assert held[0] == held[1]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (["fine\t1", "bad\t1", "so so\t1"], "all labels are '1'. Fix: name the column of the labels with data.columns.label"),
        ([f"row {n}\tlabel {n}" for n in range(9)], "there are 9 different labels. Fix: name the column of the labels"),
    ],
)
def test_column_without_labels_raises(data: Path, tmp_path: Path, rows: list[str], line: str) -> None:
    odd = tmp_path / "odd.tsv"
    odd.write_text("\n".join(["sentence\tlabel", *rows]))
    with pytest.raises(LaminaError, match=re.escape(line)):
        trainer.train(recipe(data, ("sentiment",), f"data.train={odd}", "data.dev=none"), tmp_path / "run")


def test_dev_label_outside_the_training_classes_raises(data: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd.tsv"
    odd.write_text("sentence\tlabel\nfine\t7\n")
    with pytest.raises(LaminaError, match=r"the label '7' is not in data\.classes\. Fix: .* one of 0, 1, 2, 3, 4"):
        trainer.train(recipe(data, ("sentiment",), f"data.dev={odd}"), tmp_path / "run")
    assert not (tmp_path / "run").exists(), "training did not begin"


def test_progress_reports_the_sizes_of_the_splits(data: Path, tmp_path: Path) -> None:
    heard = Heard()
    trainer.train(recipe(data, TASKS, "train.epochs=0.1"), tmp_path / "run", progress=heard)
    assert any(
        line.startswith("similarity: 72 sentences in 144 windows to train on, 18 sentences held out") for line in heard.lines
    )


# ---- use


@pytest.fixture(scope="module")
def reader(run: Run) -> lamina.Reader:
    return lamina.load(run.path)


def test_reader_predicts_as_the_run(run: Run, reader: lamina.Reader) -> None:
    moods = make_sentences("sentiment", "dev", count=30)
    predicted = json.loads(run.task("sentiment").predictions.read_text())
    labels = reader.classify([sentence.first for sentence in moods], task="sentiment")
    assert [label.label for label in labels] == [predicted[sentence.id] for sentence in moods]
    assert all(sum(label.chances.values()) == pytest.approx(1) for label in labels)
    assert all(label.confidence == max(label.chances.values()) for label in labels)

    pairs = make_sentences("similarity", "dev", count=30)
    scores = json.loads(run.task("similarity").predictions.read_text())
    similarities = reader.similarity([pair.first for pair in pairs], [str(pair.second) for pair in pairs])
    assert similarities == pytest.approx([scores[pair.id] for pair in pairs], abs=1e-4)

    alike = make_sentences("paraphrase", "dev", count=30)
    predicted = json.loads(run.task("paraphrase").predictions.read_text())
    labels = reader.classify([(pair.first, str(pair.second)) for pair in alike], task="paraphrase")
    assert [label.label for label in labels] == [predicted[pair.id] for pair in alike]


def test_classify_takes_one_text_or_a_list(reader: lamina.Reader) -> None:
    one = reader.classify("A fine day.", task="sentiment")
    assert reader.classify(["A fine day."], task="sentiment") == [one]
    assert reader.classify("A fine day.") == one, "the default is the task of single texts"
    assert reader.classify([], task="sentiment") == []
    pair = reader.classify(("A fine day.", "A good day."), task="paraphrase")
    assert reader.classify([("A fine day.", "A good day.")], task="paraphrase") == [pair]
    assert reader.similarity([], []) == []
    width = reader.model.encoder.config.hidden
    assert reader.embed("A fine day.", task="sentiment").shape == (width,)
    assert reader.embed(["A fine day."], task="sentiment").shape == (1, width)


def test_similarity_is_the_cosine_of_embeddings(reader: lamina.Reader) -> None:
    a, b = reader.embed(["The mill is old.", "The tower is new."], task="similarity")
    assert 5 * float(a @ b) == pytest.approx(reader.similarity("The mill is old.", "The tower is new."), abs=1e-4)


def test_default_embeddings_equal_sentence_transformers() -> None:
    """Compare with the mean over all real tokens, scaled to length 1."""
    made = parse_recipe({"data": {"train": "", "scores": [0, 5]}, "head": {"type": "cosine"}, "objective": {"type": "mse"}})
    source = encoders.find(made.encoder)
    reader = Reader(
        Trained(recipe=made, model=build_model(made, encoders.load(source)).eval(), tokenizer=load_tokenizer(source))
    )
    texts = ["A short one.", "The lantern guild met on the hill above the harbour, as it does every year.", "mill"]
    folder = source.tokenizer.parent
    tokens = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder).eval()(**tokens).last_hidden_state
    mask = tokens["attention_mask"][..., None]
    wanted = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1).numpy()
    np.testing.assert_allclose(reader.embed(texts), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda r: r.classify([("x", "y", "z")], task="paraphrase"), "text 1: is neither a text nor a pair. Fix: "),
        (
            lambda r: r.classify("x", task="mood"),
            "'mood' is no task of this model for classes. Fix: choose one of sent",
        ),
        (lambda r: r.classify("x", task="paraphrase"), r"text 1: is one text, but the task reads a pair \(a tuple\)"),
        (lambda r: r.classify(("x", "y"), task="sentiment"), "text 1: is a pair, but the task reads one text"),
        (lambda r: r.classify(["x", " "], task="sentiment"), "text 2: is empty"),
        (lambda r: r.similarity("x", ["y"]), "one argument is a text, the other a list. Fix: "),
        (lambda r: r.similarity(["x"], ["y", "z"]), "the first list has 1 texts, the second 2. Fix: "),
        (lambda r: r.embed([], task="similarity"), "no text to embed"),
        (lambda r: r.embed("x"), "several tasks for sentences. Fix: name one of paraphrase, similarity"),
        (lambda r: r.answer("Who?", "Ada."), "does not answer questions with spans; its heads: classification, cosine, cosine"),
    ],
)
def test_wrong_reader_calls_raise(reader: lamina.Reader, ask: Any, line: str) -> None:
    with pytest.raises(LaminaError, match=line):
        ask(reader)


def test_commands(run: Run, data: Path) -> None:
    shown = command("classify", "--model", run.path, "--task", "sentiment", "A fine day.", "--json")
    assert (shown.code, json.loads(shown.out)[0]["text"]) == (0, "A fine day.")
    shown = command("classify", "--model", run.path, "--task", "paraphrase", stdin=b"A mill.\tThe mill.\n\nA day.\tA night.\n")
    assert shown.code == 0
    assert [line.split("  ")[-1] for line in shown.out.splitlines()] == ["A mill. | The mill.", "A day. | A night."]
    shown = command("classify", "A mill.", "--second", "The mill.", "--model", run.path, "--task", "paraphrase")
    assert shown.code == 0
    shown = command("similar", "A mill.", "The mill.", "A tower.", "--model", run.path, "--json")
    assert [(line["first"], line["second"]) for line in json.loads(shown.out)] == [
        ("A mill.", "The mill."),
        ("A mill.", "A tower."),
    ]
    shown = command("similar", "--model", run.path, stdin=b"A mill.\tThe mill.\n")
    assert shown.code == 0
    shown = command("evaluate", run.path, "--data", data / "similarity-dev.tsv", "--task", "similarity", "--json")
    assert json.loads(shown.out)["pearson"] == pytest.approx(
        json.loads(run.scores.read_text())["similarity"]["pearson"], abs=1e-4
    )
    assert "pearson" in command("evaluate", run.path, "--data", data / "similarity-dev.tsv", "--task", "similarity").out


@pytest.mark.parametrize(
    ("arguments", "stdin", "line"),
    [
        (("similar", "one text"), b"", "similar: there is one text and nothing to compare it with. Fix: "),
        (("similar",), b"one text\n", "'one text': is one text. Fix: put a tab between the two texts of a line"),
        (("classify",), b"", "standard input: there is no text. Fix: "),
        (("classify",), b"a\n\xff\n", "standard input, line 2, byte 0: not UTF-8"),
        (("classify", "a", "--second", "b", "--second", "c"), b"", "--second: 2 second texts for 1 first ones"),
    ],
)
def test_wrong_commands_print_one_line(run: Run, arguments: tuple[str, ...], stdin: bytes, line: str) -> None:
    shown = command(*arguments, "--model", run.path, stdin=stdin)
    assert shown.code == 2
    assert shown.err.startswith(f"lamina: {line}")
    assert shown.err.count("\n") == 1


def test_sentences_without_labels_get_predictions(run: Run, data: Path, tmp_path: Path) -> None:
    rows = (data / "similarity-dev.tsv").read_text().splitlines()
    (tmp_path / "bare.tsv").write_text("\n".join(row.rpartition("\t")[0] for row in rows))
    out = tmp_path / "predicted.json"
    shown = command("predict", run.path, "--data", tmp_path / "bare.tsv", "--task", "similarity", "--out", out)
    assert shown.out == f"30 sentences, written to {out}\n"
    assert json.loads(out.read_text()) == pytest.approx(json.loads(run.task("similarity").predictions.read_text()), abs=1e-4)
    files = ("--data", tmp_path / "bare.tsv", "--out", out, "--nbest", tmp_path / "nbest.json")
    shown = command("predict", run.path, "--task", "similarity", *files)
    line = "lamina: --nbest: task 'similarity' (head.type 'cosine') has no such predictions. Fix: leave the option out\n"
    assert (shown.code, shown.err) == (2, line)


def test_pair_in_one_window_is_read_as_a_pair(data: Path, tmp_path: Path) -> None:
    made = recipe(data, ("similarity",), "tasks.similarity.head.type=regression", "train.epochs=0.2", "window.length=96")
    reader = lamina.load(trainer.train(made, tmp_path / "run").path)
    assert 0 <= reader.similarity("A mill.", "The mill.") <= 5
    assert json.loads((tmp_path / "run" / "scores.json").read_text()).keys() == {"pearson", "spearman"}, "one task: its scores"


def test_train_prints_the_scores_of_every_task(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(recipe(data, TASKS, "train.epochs=0.1").model_dump_json())
    shown = command("train", path, "--out", tmp_path / "run")
    assert shown.code == 0
    assert [line.partition(":")[0] for line in shown.out.splitlines()] == [*TASKS, "overall", "cost", "run"]


def test_inspect_counts_all_tasks(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(recipe(data, TASKS).model_dump_json())
    report = json.loads(command("inspect", path, "--json").out)
    assert report["training"]["questions"] == 3 * 72
    assert {"sentiment.head", "paraphrase.head"} <= report["parameters"]["by_part"].keys()


def test_data_check_of_a_table_of_sentences(data: Path, tmp_path: Path) -> None:
    shown = command("data", "check", data / "paraphrase-train.tsv")
    assert (shown.code, shown.out.split(",")[0]) == (0, "90 pairs")
    broken = tmp_path / "broken.tsv"
    broken.write_text("sentence\tlabel\nfine\t1\n\t0\nbad\t0\nlonely\n")
    shown = command("data", "check", broken)
    assert shown.code == 2
    assert [line.partition(", line ")[2] for line in shown.out.splitlines()[:2]] == [
        "3: sentence is empty. Fix: correct it or remove it",
        "5: the header has 2 cells, but this row 1. Fix: correct it or remove it",
    ]
    assert shown.out.splitlines()[-1] == "2 sentences, labels 1 (1), 0 (1)"
    assert json.loads(command("data", "check", broken, "--json").out)["rows"] == 2


def test_row_with_a_label_outside_the_classes_is_skipped(tmp_path: Path) -> None:
    """Check that a recipe and the recipe of its run read the same rows, and that tasks are independent."""
    words = ["owl", "lark", "wren", "crow"]
    rows = [f"the {words[row % 4]} sings {row}\t{row % 2}" for row in range(300)]
    rows[7] = "the owl sings 7\tbogus"
    (tmp_path / "birds.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    data = {"train": str(tmp_path / "birds.tsv"), "skip_broken": True}
    head = {"type": "classification"}
    given, found = ({"data": {**data, **classes}, "head": head} for classes in ({"classes": ["0", "1"]}, {}))
    for order in ({"a": given, "b": found}, {"b": found, "a": given}):
        made = parse_recipe({"tasks": order})
        files = FileCache()
        with pytest.warns(LaminaWarning):
            written = resolved(made, files)
            splits = {name: SENTENCES.splits(task, 0, files) for name, task in written.tasks.items()}
        assert written.tasks["b"].data.classes == ("0", "1")
        assert splits["a"] == splits["b"] and len(splits["a"].train) + len(splits["a"].holdout) == 299
        with pytest.warns(LaminaWarning, match="skipped 1 rows with a label that is not in data.classes"):
            assert SENTENCES.splits(written.tasks["b"], 0, FileCache()) == splits["b"]
