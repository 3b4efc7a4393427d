from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamina.config.parse import parse_recipe, read_recipe
from lamina.config.train_options import TrainOptions
from lamina.errors import LaminaError, LaminaWarning
from lamina.tasks.checks import build_on_meta

TOML = """
# comments are allowed
[data]
train = "train.json"
dev = "dev.json"

[encoder]
model = "tiny"
pretrained = false

[window]
length = 256
step = 100

[train]
epochs = 1.5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(TOML)
    return path


def test_toml(file: Path) -> None:
    recipe = read_recipe(file)
    assert recipe.main.data.train == "train.json"
    assert recipe.encoder.model == "tiny"
    assert recipe.encoder.pretrained is False
    assert (recipe.window.length, recipe.window.step, recipe.window.query) == (256, 100, 64)
    assert recipe.train.epochs == 1.5
    assert recipe.main.mixer.type == "last"


def test_top_level_tables_belong_to_the_task_main() -> None:
    task = {"data": {"train": "t"}, "head": {"type": "span"}}
    assert parse_recipe(dict(task)) == parse_recipe({"tasks": {"main": task}})


def test_the_recipe_json_of_a_run_gives_the_same_recipe(file: Path, tmp_path: Path) -> None:
    recipe = read_recipe(file, ["train.minutes=2.5", "window.query=32"])
    written = tmp_path / "recipe.json"
    written.write_text(json.dumps(recipe.model_dump(mode="json")))
    assert read_recipe(written) == recipe
    changed = read_recipe(written, ["data.dev=other.json", "train.seed=3"])
    assert (changed.main.data.dev, changed.main.data.train, changed.train.seed) == ("other.json", "train.json", 3)
    assert read_recipe(written, ['head={type = "span"}']) == recipe, "a whole table of the main task"


@pytest.mark.parametrize(
    ("setting", "read"),
    [
        ("train.epochs=3", lambda r: r.train.epochs == 3),
        ("train.lr = 2e-5", lambda r: r.train.lr == 2e-5),
        ("train.keep=last", lambda r: r.train.keep == "last"),
        ('train.keep="last"', lambda r: r.train.keep == "last"),
        ("encoder.pretrained=true", lambda r: r.encoder.pretrained is True),
        ("data.dev=folder/a=b.json", lambda r: r.main.data.dev == "folder/a=b.json"),
        ("mixer.type=average", lambda r: r.main.mixer.type == "average"),
        ("answer.n_best=5", lambda r: r.answer.n_best == 5),
    ],
)
def test_set(file: Path, setting: str, read: Any) -> None:
    assert not read(read_recipe(file))
    assert read(read_recipe(file, [setting]))


STAGES = 'mixer=[{type="learned"}, {type="compression", size=64}, {type="xception"}]'


def test_a_mixer_may_be_a_list_of_stages(file: Path) -> None:
    recipe = read_recipe(file, [STAGES])
    assert recipe.main.mixer.type == "learned, compression, xception"
    written = file.with_name("stages.toml")
    stages = "".join(
        f"\n[[mixer]]\n{fields}\n" for fields in ('type="learned"', 'type="compression"\nsize=64', 'type="xception"')
    )
    written.write_text(file.read_text() + stages)
    assert read_recipe(written) == recipe


def test_a_recipe_with_stages_equals_its_json(file: Path) -> None:
    recipe = read_recipe(file, [STAGES])
    stages = json.loads(recipe.model_dump_json())["tasks"]["main"]["mixer"]
    assert [stage["type"] for stage in stages] == ["learned", "compression", "xception"]
    assert stages[0]["separate"] is False, "the default in front of another stage"
    (file.parent / "recipe.json").write_text(recipe.model_dump_json())
    assert read_recipe(file.parent / "recipe.json") == recipe


def test_set_changes_one_stage(file: Path) -> None:
    changed = read_recipe(file, [STAGES, "mixer.1.size=8", "mixer.2.type=convolution"])
    assert changed == read_recipe(file, ['mixer=[{type="learned"}, {type="compression", size=8}, {type="convolution"}]'])
    for setting in ("mixer.type=dot", "mixer.3.type=dot", "mixer.first.type=dot"):
        with pytest.raises(LaminaError) as caught:
            read_recipe(file, [STAGES, setting])
        fix = "Fix: set a field of one of them, such as mixer.0.type, or set mixer itself"
        assert str(caught.value) == f"{setting.partition('=')[0]}: mixer is a list of 3 tables. {fix}"


def test_the_last_setting_wins(file: Path) -> None:
    assert read_recipe(file, ["train.seed=1", "train.seed=2"]).train.seed == 2


@pytest.mark.parametrize("setting", ["train.epochs", "=3", "", " =3"])
def test_a_setting_without_name_or_value(file: Path, setting: str) -> None:
    with pytest.raises(LaminaError, match=r"^setting .*: a name or a value is missing\. Fix: write table\.field=value$"):
        read_recipe(file, [setting])


def test_values_of_a_mapping_are_used_as_they_are(file: Path) -> None:
    recipe = read_recipe(file, {"data.dev": None, "data.train": "a😀\\.csv", "data.columns": {"first": "x", "second": None}})
    assert (recipe.main.data.dev, recipe.main.data.train) == (None, "a😀\\.csv")
    assert (recipe.main.data.columns.first, recipe.main.data.columns.second) == ("x", None)
    assert read_recipe(file, {"data": {"train": Path("a b.csv")}, "train.lr": np.float64(0.5)}).train.lr == 0.5
    assert read_recipe(file, {"data.columns": recipe.main.data.columns}).main.data.columns == recipe.main.data.columns
    assert read_recipe(file, {"data.train": "true", "data.dev": None}).main.data.train == "true", "a text is no TOML"
    tasks = {name: {"data": {"train": "t", "dev": "d"}} for name in ("one", "two")}
    several = parse_recipe({"tasks": tasks}, {"data.dev": None, "tasks.two.weight": 3})
    assert [task.data.dev for task in several.tasks.values()] == [None, None] and several.tasks["two"].weight == 3


def test_an_empty_value_removes_a_field(file: Path) -> None:
    assert read_recipe(file, ["train.epochs="]).train.epochs == read_recipe(file, {"train.epochs": None}).train.epochs
    assert read_recipe(file, ["train.epochs="]).train.epochs == parse_recipe({"data": {"train": "t"}}).train.epochs
    assert read_recipe(file, {"terms.rdrop": None, "nothing.at.all": None}) == read_recipe(file)


@pytest.mark.parametrize("settings", ["train.epochs=1", [1], {1: 2}, 3, [b"train.epochs=1"]])
def test_settings_of_a_wrong_type(file: Path, settings: Any) -> None:
    with pytest.raises(TypeError, match="settings must"):
        read_recipe(file, settings)


def test_a_setting_below_a_value(file: Path) -> None:
    with pytest.raises(LaminaError, match="epochs is not a table"):
        read_recipe(file, ["train.epochs.more=3"])


COUNT = 'give "all" or a number of last layers, 0 or more'


def problem(values: dict[str, Any]) -> str:
    """Return the error of a recipe without the name of its file. It has one line and one fix, at its end."""
    with pytest.raises(LaminaError) as caught:
        parse_recipe({"data": {"train": "t"}} | values, name="mine.toml")
    message = str(caught.value)
    assert message.startswith("mine.toml: ")
    assert "\n" not in message
    assert message.count("Fix: ") == 1
    return message.removeprefix("mine.toml: ")


@pytest.mark.parametrize(
    ("tune", "message"),
    [
        ({"layers": -1}, f"tune.layers: the value is no number of layers (given: -1). Fix: {COUNT}"),
        ({"layers": "two"}, f"tune.layers: the value is no number of layers (given: 'two'). Fix: {COUNT}"),
        ({"layers": True}, f"tune.layers: the value is no number of layers (given: True). Fix: {COUNT}"),
        (
            {"adapters": {"layers": []}},
            'tune.adapters.layers: the value names no layers. Fix: give "all", a number of last layers, or a list of layers',
        ),
    ],
)
def test_invalid_layers_are_refused(tune: dict[str, Any], message: str) -> None:
    assert problem({"tune": tune}) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": {"epoch": 3}}, "train.epoch: no such field. Fix: did you mean train.epochs?"),
        ({"data": {"train": "t", "hold_out": 0.1}}, "data.hold_out: no such field. Fix: did you mean data.holdout?"),
        ({"trian": {}}, "trian: no such field. Fix: did you mean train?"),
        ({"objectve": {}}, "objectve: no such field. Fix: did you mean objective?"),
        ({"epochs": 3}, "epochs: no such field. Fix: did you mean train.epochs?"),
        ({"tune": {"adapters": {"sise": 4}}}, "tune.adapters.sise: no such field. Fix: did you mean tune.adapters.size?"),
        (
            {"tune": {"lora": {"xyzzy": 4}}},
            "tune.lora.xyzzy: no such field. Fix: choose one of alpha, dropout, layers, rank, targets",
        ),
        ({"window": {"xyzzy": 1}}, "window.xyzzy: no such field. Fix: choose one of length, overlap, query, step"),
        (
            {"xyzzy": 1},
            "xyzzy: no such field. Fix: choose one of answer, augment, cache, data, encoder, head, mixer, objective, terms, "
            "train, tune, weight, window",
        ),
    ],
)
def test_an_unknown_field(values: dict[str, Any], message: str) -> None:
    assert problem(values) == message


def test_an_unknown_field_of_a_task() -> None:
    with pytest.raises(LaminaError, match=r"haed: no such field. Fix: did you mean head\?"):
        parse_recipe({"tasks": {"main": {"data": {"train": "t"}, "haed": {}}}})


@pytest.mark.parametrize(
    ("mixer", "message"),
    [
        ({"type": "learned", "seperate": True}, "mixer.seperate: no such field. Fix: did you mean mixer.separate?"),
        (
            {"type": "learned", "size": 64},  # a field of another type
            "mixer.size: no such field. Fix: choose one of embeddings, init, raw, separate, type",
        ),
        ({"type": "last", "epochs": 3}, "mixer.epochs: no such field. Fix: choose one of type"),
        (
            {"type": "learned", "raw": "x"},
            "mixer.raw: Input should be a valid boolean, unable to interpret input (given: 'x'). Fix: give true or false",
        ),
        (
            {"type": "convolution", "kernel": 4},
            "mixer.kernel: Input should be 1, 3, 5 or 7 (given: 4). Fix: choose 1, 3, 5 or 7",
        ),
        (
            {"type": "convolution", "channels": [8, 0]},
            "mixer.channels.1: Input should be greater than or equal to 1 (given: 0). Fix: give a number of at least 1",
        ),
        (
            {"type": "compression", "pool": "average", "shared": False},
            'mixer: pool = "average" leaves one vector per token, so shared = false has no effect. Fix: remove one of them',
        ),
    ],
)
def test_a_table_of_several_types_is_checked_by_its_type(mixer: dict[str, Any], message: str) -> None:
    assert problem({"mixer": mixer}) == message
    with pytest.raises(LaminaError) as caught:
        parse_recipe({"tasks": {"main": {"data": {"train": "t"}, "mixer": mixer}}})
    assert str(caught.value) == f"recipe: {message}"


def test_an_unknown_type_is_reported_with_all_types() -> None:
    types = "last, average, learned, dot, multiplicative, encoder, compression, convolution, inception, xception"
    assert problem({"mixer": {"type": "lerned"}}) == f"mixer.type: there is no 'lerned'. Fix: choose one of {types}"
    assert problem({"mixer": {"raw": True}}) == f"mixer.type: is missing. Fix: choose one of {types}"
    assert problem({"mixer": "learned"}).startswith("mixer: Input should be a valid dictionary")


def test_a_field_of_a_type_at_the_top_level_is_found() -> None:
    assert problem({"separate": True}) == "separate: no such field. Fix: did you mean mixer.separate?"


def test_a_misspelt_table_is_reported_before_the_missing_one() -> None:
    with pytest.raises(LaminaError, match=r"dta: no such field. Fix: did you mean data\?"):
        parse_recipe({"dta": {"train": "t"}})


def test_a_missing_field_is_named() -> None:
    for values, name in (({}, "data"), ({"data": {"dev": "d"}}, r"data\.train")):
        with pytest.raises(
            LaminaError, match=rf"^recipe: {name}: is missing\. Fix: set {name} in the recipe or in the settings \(--set\)$"
        ):
            parse_recipe(values)


def test_a_wrong_value_is_shown_with_the_allowed_values() -> None:
    assert (
        problem({"train": {"epochs": -1}})
        == "train.epochs: Input should be greater than or equal to 0 (given: -1). Fix: give a number of at least 0"
    )
    assert (
        problem({"data": {"train": "t", "holdout": 1.5}})
        == "data.holdout: Input should be less than 1 (given: 1.5). Fix: give a number less than 1"
    )
    assert (
        problem({"train": {"keep": "worst"}})
        == "train.keep: Input should be 'best' or 'last' (given: 'worst'). Fix: choose 'best' or 'last'"
    )
    assert problem({"train": {"seed": "x"}}).endswith("(given: 'x'). Fix: give a whole number")
    narrow = parse_recipe({"data": {"train": "t"}, "window": {"length": 64, "query": 64}})
    with pytest.raises(LaminaError, match=r"window\.length: 64 leaves -4 tokens of context beside a query of 64"):
        build_on_meta(narrow)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("field", ["epochs", "lr", "minutes", "evaluate_every"])
def test_infinite_numbers_are_refused(field: str, value: float) -> None:
    assert problem({"train": {field: value}}).startswith(f"train.{field}: ")


@pytest.mark.parametrize(
    ("tasks", "train", "line"),
    [
        ({}, {}, "there is no task to train"),
        ({"a b": {}}, {}, "tasks.a b: the name of a task is not allowed"),
        (
            {"mean": {}},
            {},
            "tasks.mean: the name of a task is not allowed. Fix: use letters, digits, - and _, but none of mean",
        ),
        ({"one": {}}, {"choose": "two"}, "train.choose = 'two' is no task. Fix: choose mean or one"),
        ({"one": {}}, {"gradients": "pcgrad"}, 'train.gradients = "pcgrad" is for recipes of several tasks'),
        ({"one": {}, "two": {}}, {"gradients": "pcgrad"}, 'set train.sampling = "combined"'),
        ({"one": {"head": {"type": "clasification"}}}, {}, "tasks.one.head.type: there is no 'clasification'"),
        ({"one": {"head": {"type": "cosine", "dropout": 0.1}}}, {}, "tasks.one.head.dropout: no such field"),
        (
            {"one": {"head": {"type": "cosine"}, "objective": {"type": "span"}}},
            {},
            "is for heads of type span, cacnn, not cosine",
        ),
        ({"one": {"terms": {"ranking": {}}}}, {}, "tasks.one: terms.ranking is for heads of type cosine, not span"),
        ({"one": {"weight": 0}}, {}, "tasks.one.weight: Input should be greater than 0"),
    ],
)
def test_tasks_that_do_not_fit(tasks: dict[str, Any], train: dict[str, Any], line: str) -> None:
    values = {name: {"data": {"train": "t"}} | task for name, task in tasks.items()}
    with pytest.raises(LaminaError, match=re.escape(line)):
        parse_recipe({"tasks": values, "train": train})


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"dev": "d", "dev_every": 8}, "data: dev and dev_every both name the dev set. Fix: give one of them"),
        ({"classes": ["0", "1"], "scores": [0, 1]}, "data: classes and scores are two kinds of labels"),
        ({"classes": ["0", "0"]}, "data: classes holds fewer than two labels, or one label twice. Fix: list two or more"),
        ({"scores": [0, 5], "dev_per_class": 3}, "data: dev_per_class is for classes, but the labels are scores. Fix: remove"),
        ({"scores": [5, 0]}, "data: scores must rise. Fix: give the lowest and the highest score"),
    ],
)
def test_data_of_sentences_that_does_not_fit(data: dict[str, Any], line: str) -> None:
    with pytest.raises(LaminaError, match=re.escape(line)):
        parse_recipe({"data": {"train": "t"} | data, "head": {"type": "cosine"}})


def test_data_of_sentences_is_not_for_questions() -> None:
    for name in ("per_class", "dev_per_class"):
        with pytest.raises(LaminaError, match=rf"data\.{name}: is for sentences, but head\.type 'span' answers questions"):
            build_on_meta(parse_recipe({"data": {"train": "t", name: 3}}))


def test_a_setting_without_a_task_is_for_every_task() -> None:
    tasks = {name: {"data": {"train": name}} for name in ("one", "two")}
    recipe = parse_recipe({"tasks": tasks}, ["data.questions=7", "tasks.two.weight=3"])
    assert [task.data.questions for task in recipe.tasks.values()] == [7, 7]
    assert [task.weight for task in recipe.tasks.values()] == [1, 3]


@pytest.mark.parametrize(("name", "content"), [("a.toml", "train = ["), ("a.json", "{"), ("a.json", "[1]"), ("a.json", "3")])
def test_a_broken_file(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(LaminaError, match=rf"{name}: .*recipe"):
        read_recipe(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match="no such recipe"):
        read_recipe(tmp_path / "none.toml")


def test_the_input_values_are_not_changed() -> None:
    values = {"data": {"train": "t"}, "train": {"epochs": 1}}
    parse_recipe(values, ["train.epochs=2"])
    assert values == {"data": {"train": "t"}, "train": {"epochs": 1}}


def test_a_recipe_cannot_be_changed() -> None:
    recipe = parse_recipe({"data": {"train": "t"}})
    with pytest.raises(ValueError, match="frozen"):
        recipe.train = recipe.train  # type: ignore[misc]


@pytest.mark.parametrize("settings", [["data.train=mine.csv"], {"data.train": "mine.csv"}, ["tasks.main.data.train=mine.csv"]])
def test_other_training_data_leave_out_the_dev_set_of_the_recipe(settings: Any, tmp_path: Path) -> None:
    written = tmp_path / "recipe.json"
    written.write_text(json.dumps(read_recipe("quickstart").model_dump(mode="json")))
    place = written if "tasks" in str(settings) else "quickstart"
    with pytest.warns(
        LaminaWarning, match=r"data\.dev: fables/dev is left out, because .*data\.train is now mine\.csv\. Fix: "
    ):
        recipe = read_recipe(place, settings)
    assert (recipe.main.data.train, recipe.main.data.dev) == ("mine.csv", None)


@pytest.mark.parametrize(
    ("settings", "dev"),
    [
        (["data.train=mine.csv", "data.dev=my-dev.csv"], "my-dev.csv"),
        (["data.dev=fables/dev", "data.train=mine.csv"], "fables/dev"),
        (["data.train=mine.csv", "data.dev="], None),
        (["data.train=mine.csv", "data.dev=none"], None),
        (['data={train = "mine.csv"}'], None),
        ({"data.train": "mine.csv", "data.dev": None}, None),
        (["data.dev="], None),
        (["data.train=fables/train"], "fables/dev"),
        (["train.epochs=2"], "fables/dev"),
    ],
)
def test_dev_set_can_be_set_and_unset(settings: Any, dev: str | None) -> None:
    assert read_recipe("quickstart", settings).main.data.dev == dev


def test_dev_sets_are_left_out_task_by_task() -> None:
    before = {name: task.data.dev for name, task in read_recipe("sentences").tasks.items()}
    with pytest.warns(LaminaWarning, match=r"tasks\.sentiment\.data\.dev: \S+ is left out") as caught:
        recipe = read_recipe("sentences", ["tasks.sentiment.data.train=mine.csv"])
    assert len(caught) == 1
    assert {name: task.data.dev for name, task in recipe.tasks.items()} == before | {"sentiment": None}
    with pytest.warns(LaminaWarning) as caught:
        recipe = read_recipe("sentences", ["data.train=mine.csv", "tasks.similarity.data.dev=my-dev.csv"])
    assert len(caught) == len(before) - 1
    assert {task.data.dev for task in recipe.tasks.values()} == {None, "my-dev.csv"}


def test_empty_value_removes_a_field(file: Path) -> None:
    assert read_recipe(file, ["window.step=", "train.epochs=", "train.minutes="]).train.epochs == TrainOptions().epochs
    with pytest.raises(LaminaError, match=r"data\.train: is missing"):
        read_recipe(file, ["data.train="])
