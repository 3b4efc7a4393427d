"""The layer weights of a mixer, by type of question."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lamina.answers.decisions import SpanDecision
from lamina.config.build import build_model
from lamina.config.parse import parse_recipe
from lamina.data.batches import make_batch
from lamina.data.question_types import question_type
from lamina.data.squad import to_squad
from lamina.data.windows import cut_examples
from lamina.encoder import load as encoders
from lamina.errors import LaminaError
from lamina.experiments.layer_weights import (
    TYPES,
    Strip,
    entropy,
    look_at_layers,
    strip_lines,
    table_lines,
    weigh,
)
from lamina.mixers import Stages
from lamina.mixers.pooling import OneLayer
from lamina.model.inference import span_logits
from lamina.reader.load import Reader
from lamina.runs.load import Trained
from lamina.training import trainer
from lamina.utils.run_folder import Run
from tests import tiny
from tests.command import lamina
from tests.resuming import stopped_and_resumed
from tests.utils.test_drawing import unpacked

MIXERS: list[Any] = [
    {"type": "learned", "init": "random", "embeddings": False},
    {"type": "learned", "separate": False, "raw": True, "init": "random"},
    {"type": "dot"},
    {"type": "multiplicative"},
    {"type": "encoder"},
    [{"type": "learned", "init": "random"}, {"type": "compression", "size": 32}],
    [{"type": "compression", "size": 32, "embeddings": False}, {"type": "dot"}],
]


def weighing_part(mixer: Any) -> tuple[Any, Any]:
    """Return the module that weighs the layers, and the stages before it."""
    if not isinstance(mixer, Stages):
        return mixer, torch.nn.Identity()
    first = mixer.inner[0]
    return (first.mixer, torch.nn.Identity()) if isinstance(first, OneLayer) else (mixer.last, mixer.inner)


def reader_with(mixer: Any) -> Reader:
    """Return a reader with large random weights, so that tokens differ. Its threshold rejects half of the answers."""
    recipe = parse_recipe(
        {
            "data": {"train": "unused"},
            "mixer": mixer,
            "encoder": {"model": "tiny", "pretrained": False},
            "window": tiny.SHORT.model_dump(),
        }
    )
    torch.manual_seed(0)
    model = build_model(recipe, encoders.build(encoders.find(recipe.encoder))).eval()
    with torch.no_grad():
        for parameter in model.tasks["main"].parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    trained = Trained(recipe=recipe, model=model, tokenizer=tiny.tokenizer())
    median = float(np.median([prediction.null_odds for prediction in Reader(trained).predict(tiny.corpus(3))]))
    return Reader(replace(trained, decisions={"main": SpanDecision(threshold=median)}))


@pytest.mark.parametrize("mixer", MIXERS, ids=repr)
def test_means_equal_those_of_a_loop_over_questions(mixer: Any) -> None:
    reader, examples = reader_with(mixer), tiny.corpus(3)
    seen = look_at_layers(reader.trained, examples)
    part: Any = reader.model.tasks["main"]
    weighs, before = weighing_part(part.mixer)
    assert seen.layers == weighs.layers
    totals: dict[tuple[str, str, str], list[np.ndarray]] = {}
    chaos: dict[tuple[str, str, str], list[float]] = {}
    answered = 0
    for example in examples:
        windows = cut_examples([example], reader.tokenizer, reader.recipe.window).windows()
        batch = make_batch(windows, range(len(windows)))
        with torch.no_grad():
            outputs: Any = reader.model(batch)
            stack = reader.model.hidden(batch, part.mixer.layers)
            weights = weighs.weights(before(stack), part.head.queries())
        weights = weights.detach().expand(len(windows), 2, batch.ids.shape[1], -1).numpy()
        (prediction,) = reader.predict([example])
        answer = prediction.answer(reader.threshold)
        answered += answer is not None
        best = None
        for w in range(len(windows)):
            length = int(windows.lengths[w])
            for first in range(length):
                for last in range(first, length):
                    score = float(outputs.start[w, first]) + float(outputs.end[w, last])
                    inside = bool(batch.context[w, first] and batch.context[w, last])
                    wanted = (first == last == 0) if answer is None else inside
                    goal = prediction.null if answer is None else answer.score
                    if wanted and abs(score - goal) < 1e-5:
                        best = best or (w, first, last)
        assert best is not None
        w, first, last = best
        for number, end in enumerate(("start", "end")):
            at_answer = weights[w, number, (first, last)[number]][None]
            in_context = weights[:, number][batch.context.numpy()]
            for at, found in (("answer", at_answer), ("context", in_context)):
                for kind in ("all", question_type(example.question)):
                    totals.setdefault((kind, at, end), []).append(found.mean(0))
                    chaos.setdefault((kind, at, end), []).append(float(entropy(found).mean()))
    assert 0 < answered < len(examples)
    assert {(row.type, row.at, row.end) for row in seen.rows} == set(totals)
    for row in seen.rows:
        key = (row.type, row.at, row.end)
        assert row.questions == len(totals[key])
        assert row.weights == pytest.approx(np.mean(totals[key], 0).tolist(), abs=1e-5)
        assert row.entropy == pytest.approx(np.mean(chaos[key]), abs=1e-4)
        if isinstance(mixer, list) or not mixer.get("raw"):
            assert sum(row.weights) == pytest.approx(1, abs=1e-5)


def test_logits_and_weights_are_those_of_the_model() -> None:
    reader = reader_with({"type": "dot"})
    windows = tiny.windows(tiny.corpus(2))
    logits, weights = weigh(reader.model, windows)
    wanted = span_logits(reader.model, windows)
    np.testing.assert_allclose(logits.start, wanted.start, atol=1e-6)
    np.testing.assert_allclose(logits.end, wanted.end, atol=1e-6)
    assert weights.shape == (len(windows.ids), 2, 2)
    assert not np.allclose(weights[:, 0], weights[:, 1]), "starts and ends have their own weights"


def test_result_does_not_depend_on_the_questions_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, examples = reader_with({"type": "dot"}), tiny.corpus(2)
    whole = look_at_layers(reader.trained, examples)
    monkeypatch.setattr("lamina.experiments.layer_weights.AT_ONCE", 3)
    for one, other in zip(look_at_layers(reader.trained, examples).rows, whole.rows, strict=True):
        assert (one.type, one.questions) == (other.type, other.questions)
        assert one.weights == pytest.approx(other.weights, abs=1e-6)


def test_entropy() -> None:
    rows = np.array([[1.0, 0, 0, 0], [0.25] * 4, [0.5, 0.5, 0, 0], [-3.0, 3.0, 0, 0], [0.0] * 4])
    assert entropy(rows).tolist() == pytest.approx([0, 2, 1, 1, 0], abs=1e-9)
    share = np.array([0.7, 0.2, 0.1])
    assert float(entropy(share)) == pytest.approx(-sum(p * math.log2(p) for p in share))


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is it?", "what"),
        ("In what year?", "what"),
        ("Who's there?", "who"),
        ("To whom?", "who"),
        ("WHERE?", "where"),
        ("How many of what?", "how"),
        ("Name a river.", "other"),
        ("Somewhere, somehow", "other"),
        ("", "other"),
    ],
)
def test_question_type(question: str, kind: str) -> None:
    assert question_type(question) == kind
    assert kind in TYPES


def test_example_has_the_given_id() -> None:
    reader, examples = reader_with({"type": "dot"}), tiny.corpus(2)
    replies = [prediction.answer(reader.threshold) for prediction in reader.predict(examples)]
    assert None in replies and any(replies)
    for example, reply in zip(examples, replies, strict=True):
        strip = look_at_layers(reader.trained, examples, example=example.id).example
        assert (strip.id, strip.question) == (example.id, example.question)
        assert strip.tokens[0] == "[CLS]"
        assert strip.weights.shape == (len(strip.tokens), 2, 2)
        if reply is None:
            assert (strip.answer, strip.first, strip.last) == (None, 0, 0)
        else:
            assert strip.answer == reply.text
            assert reply.text.startswith(strip.tokens[strip.first]) and reply.text.endswith(strip.tokens[strip.last])
    assert look_at_layers(reader.trained, examples).example.id == "0-0"
    with pytest.raises(LaminaError, match=r"none of the \d+ questions has the id 'nobody'"):
        look_at_layers(reader.trained, examples, example="nobody")


def test_darkness_is_the_absolute_weight() -> None:
    weights = np.array([[[-2.0, 1.0], [0.0, 0.5]]], np.float32)  # a token, start and end, two layers
    strip = Strip("q", "?", None, 0, 0, ("[CLS]",), weights)
    assert strip.darkness().tolist() == [[[1, 0.5], [0, 0.25]]]
    assert strip_lines(strip)[1].endswith("│█▒   │ │ ░   │")


def test_strip_fits_on_a_screen() -> None:
    seen = look_at_layers(reader_with({"type": "encoder"}).trained, tiny.corpus(2))
    lines = strip_lines(seen.example, shown=10)
    assert len(lines) == 11
    assert any(line.startswith(">") for line in lines), "the answer is shown"
    assert len({len(line) for line in lines[1:]}) == 1
    table = table_lines(seen)
    assert table[0].split() == ["questions", "at", "of", "1", "2", "entropy"]
    assert table[1].split()[:4] == ["all", "10", "answer", "start"]
    assert all(len(line) <= 80 for line in [*lines, *table])


@pytest.mark.parametrize("name", ["last", "average", "compression"])
def test_mixers_without_weights_raise(name: str) -> None:
    with pytest.raises(LaminaError, match=f'mixer.type: "{name}" has no weights of layers') as caught:
        look_at_layers(reader_with({"type": name}).trained, tiny.corpus(1))
    assert "\n" not in str(caught.value)


# ---- the command, on a run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layers")
    (folder / "few.json").write_text(json.dumps(to_squad(tiny.corpus(4))))
    recipe = {
        "data": {"train": str(folder / "few.json"), "holdout": 0.3},
        "mixer": {"type": "dot"},
        "encoder": {"model": "tiny", "pretrained": False},
        "window": {"length": 64, "query": 16, "step": 16},
        "train": {"epochs": 1, "lr": 1e-3, "threads": 1, "schedule": "cosine_restarts"},
    }
    (folder / "recipe.json").write_text(json.dumps(recipe))
    result = lamina("train", folder / "recipe.json", "--out", folder / "run", "--json")
    assert result.code == 0, result.err
    return folder


def test_command_writes_tables_and_a_picture(folder: Path) -> None:
    result = lamina("layers", folder / "run", "--data", folder / "few.json", "--threads", "1")
    assert result.code == 0, result.err
    assert "When was the heron born?" in result.out
    with (folder / "run" / "layers" / "layers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["type"] == "all"
    assert {row["type"] for row in rows} == {"all", "when", "where", "what", "who"}
    assert all(float(row["layer 1"]) + float(row["layer 2"]) == pytest.approx(1, abs=1e-5) for row in rows)
    with (folder / "run" / "layers" / "example.csv").open(newline="") as file:
        tokens = list(csv.DictReader(file))
    assert list(tokens[0])[:4] == ["token", "text", "answer", "start 1"]
    pixels = unpacked((folder / "run" / "layers" / "example.png").read_bytes())
    assert pixels.shape == (8 * 6, 8 * len(tokens), 3), "two layers and the mark of the answer, twice"


def test_command_prints_json(folder: Path, tmp_path: Path) -> None:
    command = ("layers", folder / "run", "--data", folder / "few.json", "--questions", "5", "--out", tmp_path, "--json")
    result = lamina(*command, "--example", "0-3", "--threads", "1")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["mixer"], found["layers"], found["rows"][0]["questions"]) == ("dot", [1, 2], 5)
    assert found["example"]["id"] == "0-3"
    assert np.shape(found["example"]["weights"]) == (len(found["example"]["tokens"]), 2, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["example.csv", "example.png", "layers.csv"]
    refused = lamina(*command, "--example", "0-9")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_a_run_of_stages_is_resumed_loaded_and_measured(folder: Path, tmp_path: Path) -> None:
    stages = [{"type": "learned", "init": "random"}, {"type": "compression", "size": 8}, {"type": "xception"}]
    values = json.loads((folder / "recipe.json").read_text()) | {"mixer": stages}
    values["train"] |= {"checkpoint_minutes": 0, "batch_tokens": 256}
    recipe = parse_recipe(values)
    whole = trainer.train(recipe, tmp_path / "run")
    part = stopped_and_resumed(recipe, tmp_path / "part", before=2)
    assert part.metrics.read_bytes() == whole.metrics.read_bytes()
    assert part.model.read_bytes() == whole.model.read_bytes()
    assert [stage["type"] for stage in json.loads(whole.recipe.read_text())["tasks"]["main"]["mixer"]] == [
        "learned",
        "compression",
        "xception",
    ]
    again = lamina("train", whole.recipe, "--out", tmp_path / "again", "--json")  # the recipe of a run is a recipe
    assert again.code == 0, again.err
    assert Run(tmp_path / "again").model.read_bytes() == whole.model.read_bytes()
    result = lamina(
        "layers", whole.path, "--data", folder / "few.json", "--json", "--out", tmp_path / "layers", "--threads", "1"
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["mixer"], found["layers"]) == ("learned, compression, xception", [0, 1, 2])
    assert sum(found["rows"][0]["weights"]) == pytest.approx(1, abs=1e-5)
