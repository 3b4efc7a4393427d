"""The public names of the package, their arguments and their errors."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lamina
from lamina.data.squad import to_squad
from lamina.utils.run_folder import FORMAT
from tests import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api")
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(6))))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    lamina.train(str(folder / "small.toml"), str(folder / "run"), settings={"train.epochs": 0.5})
    return folder


@pytest.fixture(scope="module")
def reader(folder: Path) -> lamina.Reader:
    return lamina.load(folder / "run", device="cpu")


def test_every_public_name_is_listed_and_exists() -> None:
    assert dir(lamina) == sorted(lamina.__all__)
    assert all(getattr(lamina, name) is not None for name in lamina.__all__)
    with pytest.raises(AttributeError, match="no attribute 'answer'"):
        _ = lamina.answer
    assert (lamina.__doc__ or "").split("\n\n")[1].strip().startswith(">>> import lamina")


def test_import_loads_no_library() -> None:
    code = "import sys; before = set(sys.modules); import lamina; dir(lamina); print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "pydantic", "tokenizers"} & set(done.stdout.replace("'", " ").replace(",", " ").split())


def test_settings_change_a_recipe(folder: Path) -> None:
    settings = {"train.epochs": 0.5, "data.train": "my.csv", "data.dev": None, "train.curves": True}
    recipe = lamina.read_recipe("quickstart", settings)
    assert (recipe.train.epochs, recipe.main.data.train, recipe.train.curves) == (0.5, "my.csv", True)
    texts = ["train.epochs=0.5", "data.train=my.csv", "data.dev=", "train.curves=true"]
    assert recipe == lamina.read_recipe("quickstart", texts)
    written = json.loads((folder / "run" / "recipe.json").read_text())
    assert written["train"]["epochs"] == 0.5
    with pytest.raises(lamina.LaminaError, match=r"did you mean train\.epochs"):
        lamina.read_recipe("quickstart", {"train.epoch": 1})


def test_recipe_object_takes_settings(folder: Path, tmp_path: Path) -> None:
    recipe = lamina.read_recipe(folder / "small.toml")
    run = lamina.train(recipe, tmp_path / "run", dev=False, settings={"train.epochs": 0.25, "train.seed": 3})
    written = json.loads(run.recipe.read_text())["train"]
    assert (written["epochs"], written["seed"]) == (0.25, 3)


def test_evaluate_a_model_by_its_name(folder: Path, reader: lamina.Reader) -> None:
    data = folder / "dev.json"
    assert lamina.evaluate(folder / "run", str(data)) == lamina.evaluate(reader, str(data)) == reader.evaluate(str(data))


def test_repr_of_reader_and_reply(reader: lamina.Reader) -> None:
    assert repr(reader) == "Reader(main: span; bert, 2 layers x 64)"
    reply = reader.answer("When was the heron born?", "The heron was born in 1800.", threshold=1e9)
    assert str(reply) == f"{reply.text} (confidence {reply.confidence:.2f})"
    silent = reader.answer("When was the heron born?", "The heron was born in 1800.", threshold=-1e9)
    assert str(silent) == f"no answer (confidence {silent.no_answer:.2f})"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "a text"), "questions must be a text or several texts, not NoneType"),
        ((b"Who?", "a text"), "questions must be a text or several texts, not bytes"),
        (("Who?", {"text": "a"}), "context must be a text or several texts, not dict"),
        (("Who?", None), "context must be a text or several texts, not NoneType"),
        (("Who?", ["a text", 3]), "context must be texts, but one is int"),
    ],
)
def test_wrong_types_raise(reader: lamina.Reader, arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        reader.answer(*arguments)


def test_wrong_numbers_raise(reader: lamina.Reader, folder: Path) -> None:
    with pytest.raises(TypeError, match="top_k must be a whole number, not str"):
        reader.answer("Who?", "a text", top_k="3")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="top_k must be 1 or more, not 0"):
        reader.answer("Who?", "a text", top_k=0)
    number_of_numpy: Any = np.float32(1e6)
    wrong: list[Any] = ["1", True, [1]]
    for threshold in wrong:
        with pytest.raises(TypeError, match="threshold must be a number, not "):
            reader.answer("Who?", "a text", threshold=threshold)
    assert reader.answer("Who?", "a text", threshold=number_of_numpy) == reader.answer("Who?", "a text", threshold=1e6)
    threads: list[Any] = ["2", 1.5, True]
    for number in threads:
        with pytest.raises(TypeError, match=f"threads must be a whole number, not {type(number).__name__}"):
            lamina.load(folder / "run", threads=number)
    with pytest.raises(ValueError, match="threads must be 1 or more, not -1"):
        lamina.load(folder / "run", threads=-1)
    with pytest.raises(TypeError, match="model must be a path or a hub id, not NoneType"):
        lamina.load(None)  # type: ignore[arg-type]


def test_raw_predictions_need_examples(reader: lamina.Reader) -> None:
    wrong: list[Any] = [[{"question": "Who?", "context": "a text"}], "dev.json", None]
    for examples in wrong:
        with pytest.raises(TypeError, match=r"^examples must be (Example objects, but one is dict|a list of Example, not )"):
            reader.predict(examples)


def test_repr_of_a_run() -> None:
    assert repr(lamina.Run(Path("runs/x"))) == "Run('runs/x')"


SCRIPT = Path(__file__).with_name("user_script.py")


def test_the_user_script_uses_every_public_name() -> None:
    found = set(re.findall(r"lamina\.(\w+)", SCRIPT.read_text()))
    assert found == set(lamina.__all__)
    methods = {name for name in dir(lamina.Reader) if not name.startswith("_") and callable(getattr(lamina.Reader, name))}
    shown = {
        "answer",
        "calibrate",
        "classify",
        "embed",
        "evaluate",
        "predict",
        "predictions",
        "push_to_hub",
        "save",
        "similarity",
    }
    assert shown < methods and all(re.search(rf"\b{name}\(", SCRIPT.read_text()) for name in shown)


@pytest.mark.slow
def test_the_types_of_the_public_names_suit_a_strict_user(tmp_path: Path) -> None:
    """mypy reads the package as a user's mypy does: from outside the repository, by its py.typed."""
    (tmp_path / "program.py").write_text(SCRIPT.read_text())
    package = Path(lamina.__file__).parent
    assert (package / "py.typed").is_file()
    settings = "[mypy]\nstrict = True\nplugins = pydantic.mypy\n"
    (tmp_path / "mypy.ini").write_text(settings)
    run = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(tmp_path / "cache"), "program.py"]
    environment = os.environ | {"MYPYPATH": "", "PYTHONPATH": str(package.parent)}
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = (tmp_path / "program.py").read_text().replace("top_k=3", 'top_k="3"').replace("threads=2", "threads=[2]")
    (tmp_path / "program.py").write_text(wrong)
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.stdout.count("error: ") == 2, done.stdout


PUBLIC = [getattr(lamina, name) for name in lamina.__all__ if name != "__version__"]


@pytest.mark.parametrize("owner", [one for one in PUBLIC if inspect.isclass(one)], ids=lambda owner: owner.__name__)
def test_every_public_class_and_property_is_documented(owner: type) -> None:
    assert owner.__doc__ and "__init__" not in owner.__doc__
    own = [value for name, value in inspect.getmembers(owner) if isinstance(value, property) and not name.startswith("_")]
    module = [value for value in own if value.fget is not None and value.fget.__module__.startswith("lamina")]
    assert [value for value in module if not value.__doc__] == []


def test_the_stability_page_names_the_formats_that_are_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "stability.md").read_text(encoding="utf-8")
    assert f"This version writes format {FORMAT} and reads formats 1 and {FORMAT}." in page
    assert "docs/stability.md" in (lamina.__doc__ or "")
