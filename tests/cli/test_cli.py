"""The commands, as a user calls them."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

import lamina as library
from lamina import cli
from lamina.data.squad import to_squad
from tests import tiny
from tests.command import lamina

LAMINA = Path(sys.executable).with_name("lamina")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a small corpus and a recipe, and train a run."""
    folder = tmp_path_factory.mktemp("cli with spaces")
    (folder / "train.json").write_text(json.dumps(to_squad(tiny.corpus(12))))
    (folder / "dev.json").write_text(json.dumps(to_squad(tiny.corpus(15)[60:])))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    (folder / "story.txt").write_text("The heron was born in 1807. It lives in a ruined mill.\n")
    result = lamina("train", folder / "small.toml", "--out", folder / "run", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["scores"]["tuned"]["total"] == 15
    return folder


def test_version_and_help_do_not_import_torch() -> None:
    code = "import sys; from lamina import cli; sys.argv = ['lamina', '--help']\ntry: cli.main()\nexcept SystemExit: pass\n"
    code += "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    assert lamina("--version").out == f"lamina {library.__version__}\n"


def test_train_does_not_overwrite_a_run_and_resumes_a_finished_one(folder: Path) -> None:
    again = lamina("train", folder / "small.toml", "--out", folder / "run")
    assert again.code == 2
    assert "--resume" in again.err
    assert again.err.count("\n") == 1 or again.err.splitlines()[-1].startswith("lamina: ")
    assert lamina("train", folder / "small.toml", "--out", folder / "run", "--resume").code == 0


def test_evaluate_predict_and_score_agree(folder: Path) -> None:
    evaluated = json.loads(lamina("evaluate", folder / "run", "--data", folder / "dev.json", "--json").out)
    assert list(evaluated)[:4] == ["threshold", "exact", "f1", "total"]
    out, odds, nbest = folder / "p.json", folder / "odds.json", folder / "nbest.json"
    predicted = lamina(
        "predict", folder / "run", "--data", folder / "dev.json", "--out", out, "--null-odds", odds, "--nbest", nbest
    )
    assert predicted.code == 0, predicted.err
    scored = json.loads(lamina("score", "--data", folder / "dev.json", "--predictions", out, "--json").out)
    assert scored["f1"] == pytest.approx(evaluated["f1"])
    assert scored["exact"] == pytest.approx(evaluated["exact"])
    with_odds = json.loads(
        lamina("score", "--data", folder / "dev.json", "--predictions", out, "--null-odds", odds, "--json").out
    )
    assert "best_f1_thresh" in with_odds
    assert set(json.loads(nbest.read_text())) == set(json.loads(out.read_text()))
    assert json.loads((folder / "run" / "predictions.json").read_text()) == json.loads(out.read_text())
    assert "F1" in lamina("evaluate", folder / "run", "--data", folder / "dev.json").out


def test_predictions_do_not_depend_on_the_gold_answers(folder: Path) -> None:
    blind = json.loads((folder / "dev.json").read_text())
    for article in blind["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                question["answers"], question["is_impossible"] = [], True
    (folder / "blind.json").write_text(json.dumps(blind))
    for name in ("dev", "blind"):
        lamina("predict", folder / "run", "--data", folder / f"{name}.json", "--out", folder / f"{name}-out.json")
    assert (folder / "dev-out.json").read_bytes() == (folder / "blind-out.json").read_bytes()


def test_ask_answers_with_a_quoted_span(folder: Path) -> None:
    story = (folder / "story.txt").read_text()
    result = lamina(
        *("ask", "--model", folder / "run", "--context", folder / "story.txt", "--threshold", 1e6, "--json"),
        *("When was the heron born?", "Where does it live?"),
    )
    assert result.code == 0, result.err
    answers = json.loads(result.out)
    assert [a["question"] for a in answers] == ["When was the heron born?", "Where does it live?"]
    for answer in answers:
        assert story[answer["start"] : answer["end"]] == answer["answer"]
        assert 0 <= answer["confidence"] <= 1
    silent = lamina("ask", "--model", folder / "run", "--context", "-", "--threshold", -1e6, "Why?", stdin=story.encode())
    assert "no answer" in silent.out


def test_ask_takes_the_best_of_several_texts(folder: Path) -> None:
    reader = library.load(folder / "run", threads=1)
    texts = ["Nothing here.", (folder / "story.txt").read_text()]
    reply = reader.answer("When was the heron born?", texts, threshold=1e6)
    assert reply.answer is not None and reply.context is not None
    assert texts[reply.context][reply.start : reply.end] == reply.text
    each = [reader.predict([tiny.example(t, question="When was the heron born?")])[0].null_odds for t in texts]
    assert reply.context == each.index(min(each))


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["train", "missing.toml"], "no such recipe"),
        (["train", "quickstart", "--set", "train.epoch=1"], "did you mean train.epochs"),
        (["train", "quickstart", "--set", "train.lr"], "setting 'train.lr': a name or a value is missing"),
        (["train", "quickstart", "--set", "encoder.model=bert-base-cased"], "pretrained"),
        (["train", "quickstart", "--set", "window.length=4000"], "Fix: set window.length to at most"),
        (["evaluate", "nowhere", "--data", "x.json"], "not a run folder"),
        (["score", "--data", "nothing.json", "--predictions", "p.json"], "nothing.json"),
        (["ask", "--context", "nothing.txt", "Who?"], "nothing.txt"),
        (["recipes", "show", "quikstart"], "did you mean quickstart"),
        (["data", "check", "nothing.json"], "no such data"),
    ],
)
def test_mistakes_get_one_line_and_exit_2(
    arguments: list[str], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = lamina(*arguments)
    assert result.code == 2
    assert part in result.err
    assert result.err.startswith("lamina: ")
    assert result.err.count("\n") == 1


def test_empty_question_and_empty_text_raise(folder: Path) -> None:
    story = folder / "story.txt"
    assert "empty" in lamina("ask", "--model", folder / "run", "--context", story, " ").err
    assert "empty" in lamina("ask", "--model", folder / "run", "--context", "-", "Who?", stdin=b"  ").err


def test_damaged_model_prints_one_line(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "run"
    broken.mkdir()
    for file in (folder / "run").iterdir():
        (broken / file.name).write_bytes(file.read_bytes()[: 1000 if file.name == "model.safetensors" else None])
    result = lamina("ask", "--model", broken, "--context", folder / "story.txt", "Who?")
    assert result.code == 2
    assert "model.safetensors" in result.err


def test_inspect_counts_and_estimates(folder: Path) -> None:
    report = json.loads(lamina("inspect", folder / "small.toml", "--threads", 1, "--json").out)
    assert report["parameters"]["total"] == sum(report["parameters"]["by_part"].values())
    assert report["parameters"]["trainable"] == report["parameters"]["total"]
    assert report["training"]["questions"] == 50
    longer = json.loads(lamina("inspect", folder / "small.toml", "--threads", 1, "--set", "train.epochs=8", "--json").out)
    assert longer["training"]["flops"] == pytest.approx(4 * report["training"]["flops"]), "it has 2 epochs"
    paper = json.loads(lamina("inspect", "quickstart", "--threads", 1, "--set", "encoder.model=bert-base-cased", "--json").out)
    assert paper["parameters"]["total"] == 108_311_810
    assert paper["training"]["estimated_minutes"] > report["training"]["estimated_minutes"]
    assert "parameters: " in lamina("inspect", folder / "small.toml", "--threads", 1).out


def test_inspect_reports_the_size_of_a_store_and_the_efficiency_of_a_run(folder: Path) -> None:
    frozen = ("--set", "tune.layers=1", "--set", "encoder.model=bert-base-cased")
    report = json.loads(lamina("inspect", folder / "small.toml", "--threads", 1, *frozen, "--f1", 75, "--json").out)
    tokens, store = report["training"]["tokens_per_epoch"], report["training"]["store"]
    assert store["layers"] == [11]
    assert store["gb"] == pytest.approx(tokens * 768 * 2 / 1e9, rel=0.4, abs=1e-3)  # and what is held out
    assert report["efficiency"] == pytest.approx(25 / math.log10(report["parameters"]["trainable"]), abs=0.01)
    full = json.loads(lamina("inspect", folder / "small.toml", "--threads", 1, "--json").out)
    assert full["training"]["store"] is None
    assert "efficiency" not in full
    assert "efficiency: " in lamina("inspect", folder / "run" / "recipe.json", "--threads", 1).out
    changed = lamina("inspect", folder / "run" / "recipe.json", "--threads", 1, "--set", "tune.layers=0").out
    assert "efficiency: " not in changed, "the run was trained otherwise"
    assert "store: " in changed


def test_stores_are_listed_verified_and_cleared(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    trained = lamina("train", folder / "small.toml", "--out", tmp_path / "run", "--set", "tune.layers=0")
    assert trained.code == 0, trained.err
    stores = json.loads(lamina("cache", "list", "--json").out)
    assert len(stores) == 2
    assert "in float16" in lamina("cache", "list").out
    assert lamina("cache", "verify").out.count("sound") == 2
    shard = next((tmp_path / "cache").rglob("00000.bin"))
    shard.write_bytes(shard.read_bytes()[:-1])
    damaged = lamina("cache", "verify", shard.parent.name[:10])
    assert damaged.code == 2
    assert "truncated" in damaged.out
    assert lamina("cache", "clear").code == 2
    assert lamina("cache", "clear", shard.parent.name).code == 0
    assert len(json.loads(lamina("cache", "list", "--json").out)) == 1
    assert lamina("cache", "clear", "--all").code == 0
    assert json.loads(lamina("cache", "list", "--json").out) == []


def test_data_commands(folder: Path, tmp_path: Path) -> None:
    assert "fables/train" in lamina("data", "list").out
    assert lamina("data", "check", folder / "train.json").code == 0
    broken = json.loads((folder / "train.json").read_text())
    broken["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] += 3
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    before = (tmp_path / "broken.json").read_bytes()
    checked = lamina("data", "check", tmp_path / "broken.json")
    assert checked.code == 2
    assert "answer_start" in checked.out
    assert lamina("data", "clean", tmp_path / "broken.json", "--out", tmp_path / "clean.json").code == 0
    assert lamina("data", "check", tmp_path / "clean.json").code == 0
    assert (tmp_path / "broken.json").read_bytes() == before
    made = lamina("data", "make", "fables", "--out", tmp_path / "fables", "--articles", 3, "--seed", 5, "--json")
    assert made.code == 0, made.err
    assert lamina("data", "check", tmp_path / "fables" / "train.json").code == 0


def test_the_advice_of_a_problem_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    for name in ("own/train.csv", "own/train.csv.gz", "own/dev-1.csv"):
        content = b"question,context,answer,answer_start\nWho?,An owl.,owl,5\nWhat?,An owl.,cat,\n"
        Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    advice = lamina("data", "check", "own/train.csv").out.splitlines()[0].partition("Fix: run lamina ")[2].split()
    assert advice == ["data", "clean", "own/train.csv"]
    before = Path("own/train.csv").read_bytes()
    assert lamina(*advice).out.endswith("own/train-clean.json: 1 question, 1 problem repaired, 1 left out\n")
    assert lamina("data", "check", "own/train-clean.json").code == 0 and Path("own/train.csv").read_bytes() == before
    assert json.loads(lamina("data", "clean", "own/train.csv.gz", "--json").out)["out"] == "own/train-clean.json"
    assert json.loads(lamina("data", "clean", "own:dev", "--json").out)["out"] == "dev-1-clean.json"
    assert json.loads(lamina("data", "clean", "own/dev-*.csv", "--json").out)["out"] == "own/dev-clean.json"
    again = lamina("data", "clean", "own/train-clean.json")
    assert again.code == 0 and Path("own/train-clean-clean.json").exists()


def test_generated_data_is_checked_and_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    questions = json.loads(lamina("data", "check", "fables/dev", "--json").out)
    assert questions["problems"] == [] and questions["counts"]["questions"] > 100
    assert lamina("data", "check", "fables/sentiment/dev").out.endswith(")\n")
    assert lamina("data", "clean", "fables/dev").code == 0
    cleaned = json.loads(lamina("data", "check", "fables-dev-clean.json", "--json").out)
    assert cleaned["counts"]["questions"] == questions["counts"]["questions"]
    assert "holds labelled sentences" in lamina("data", "clean", "fables/sentiment/dev").err


@pytest.mark.parametrize(
    "command", [["check"], ["clean"], ["convert", "out.csv"], ["contexts", "--bm25", "2", "--out", "out.jsonl"]]
)
def test_a_home_folder_that_does_not_exist_is_one_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = lamina("data", command[0], "~nouser/x.csv", *command[1:])
    assert (
        result.code == 2
        and result.err.startswith("lamina: ~nouser/x.csv: ")
        and result.err.count("Fix: write the whole path") == 1
    )


def test_ids_that_occur_twice_name_the_option_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("id,question,context,answer\na,Who?,An owl.,owl\na,What?,An owl.,owl\n")
    convert = ["data", "convert", tmp_path / "own.csv", tmp_path / "own.json"]
    assert 'or set duplicate_ids = "rename" (in a command: --duplicate-ids rename)' in lamina(*convert).err
    assert lamina(*convert, "--duplicate-ids", "rename").code == 0


@pytest.mark.parametrize(
    ("words", "path"),
    [(["ask", "--text"], "lamina ask"), (["data", "clean", "x.csv", "--out"], "lamina data clean"), (["--nothing"], "lamina")],
)
def test_a_mistake_on_the_command_line_names_the_help_of_its_command(words: list[str], path: str) -> None:
    result = lamina(*words)
    assert result.code == 2
    assert result.err.startswith(f"{path}: ") and f"`{path} -h`" in result.err


@pytest.mark.parametrize("words", [["my.csv"], ["--data", "my.csv"], ["quickstart", "--data=my.csv"], ["my.csv", "--resume"]])
def test_training_on_a_file_names_the_setting(words: list[str]) -> None:
    result = lamina("train", *words)
    assert result.code == 2 and result.err.endswith("Fix: run lamina train quickstart --set data.train=my.csv\n")


def test_recipes_are_listed_and_shown() -> None:
    recipes = json.loads(lamina("recipes", "list", "--json").out)
    assert {"quickstart", "squad2/baseline"} <= set(recipes)
    for name, description in recipes.items():
        first, second = lamina("recipes", "show", name).out.splitlines()[:2]
        assert first == f"# {description}" and second.startswith("# lamina train")
    printed = lamina("recipes", "list").out
    lines = [line.split(maxsplit=1) for line in printed.splitlines() if line]
    assert dict(lines) == recipes
    groups = [{line.partition("/")[0] for line in group.splitlines() if "/" in line} for group in printed.split("\n\n")]
    assert groups[0] == set() and all(len(group) == 1 for group in groups[1:]), "a group is a folder"


@pytest.mark.slow
def test_ctrl_c_saves_and_exits_130(folder: Path, tmp_path: Path) -> None:
    command: list[str | Path] = [LAMINA, "train", folder / "small.toml", "--out", tmp_path / "run", "--set", "train.epochs=400"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not (metrics.exists() and metrics.stat().st_size):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"--resume" in err
    assert (tmp_path / "run" / "checkpoint.pt").exists()


@pytest.mark.slow
def test_closed_pipe_is_no_error() -> None:
    done = subprocess.run(f"'{LAMINA}' recipes show quickstart | head -n 1", shell=True, capture_output=True)
    assert done.returncode == 0
    assert not done.stderr


@pytest.mark.parametrize("words", [(), ("train",), ("data", "check")])
def test_help_has_several_names(words: tuple[str, ...]) -> None:
    short, long, command = lamina(*words, "-h"), lamina(*words, "--help"), lamina("help", *words)
    assert short.code == long.code == command.code == 0 and short.out == long.out == command.out and "Usage" in short.out


def test_lamina_alone_prints_its_help() -> None:
    assert lamina().out.strip() == lamina("-h").out.strip()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("trian",), "lamina: no such command 'trian'. Fix: did you mean train or pretrain?"),
        (("data", "chekc"), "lamina data: no such command 'chekc'. Fix: did you mean check?"),
        (("help", "trian"), "lamina: help: there is no command 'trian'. Fix: did you mean train?"),
        (("train",), "lamina train: missing argument 'RECIPE'. Fix: run `lamina train -h` to see what it takes"),
        (("ask", "--treshold", "1"), "lamina ask: no such option: --treshold. Fix: did you mean --threads or --threshold?"),
    ],
)
def test_a_mistake_on_the_command_line_gets_one_line(words: tuple[str, ...], line: str) -> None:
    result = lamina(*words)
    assert (result.code, result.out, result.err) == (2, "", f"{line}\n")


def commands() -> dict[str, Any]:
    """Return every command of the program, by its name with those of its groups."""
    root = typer.main.get_command(cli.app)
    found: dict[str, Any] = {}
    for name, command in getattr(root, "commands", {}).items():
        inner = getattr(command, "commands", None)
        found |= {f"{name} {word}": one for word, one in inner.items()} if inner else {name: command}
    return found


PANELS = {"device": "Machine", "threads": "Machine", "allow_pickle": "Machine", "as_json": "Output", "data": "Data"}


def test_options_that_several_commands_have_are_in_the_same_panel() -> None:
    for name, command in commands().items():
        for option in command.params:
            if option.name in PANELS and option.param_type_name == "option":
                assert option.rich_help_panel == PANELS[option.name], f"{name}: {option.name}"


@pytest.mark.parametrize("name", ["ask", "predict"])
def test_few_options_belong_to_one_command(name: str) -> None:
    found = commands()
    others = {option.name for other, command in found.items() if other != name for option in command.params}
    own = [option.name for option in found[name].params if option.param_type_name == "option" and option.name not in others]
    assert len(own) <= 8, own
    options = [option for option in found[name].params if option.param_type_name == "option" and option.name != "help"]
    assert all(option.rich_help_panel for option in options)


def test_help_texts_are_short_sentences() -> None:
    for name, command in commands().items():
        texts = [command.help, *(getattr(option, "help", None) for option in command.params)]
        for text in filter(None, texts):
            for sentence in re.split(r"(?<=[.:;])\s", " ".join(text.split())):
                assert len(sentence.split()) <= 25, f"{name}: {sentence}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_the_shell_that_runs_it(shell: str) -> None:
    """typer asks shellingham for the shell above; here a variable of typer names it."""
    environment = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    run: list[str | Path] = [LAMINA, "--show-completion", shell]
    done = subprocess.run(run, capture_output=True, text=True, env=environment, check=True)
    assert "_LAMINA_COMPLETE=complete_" + shell in done.stdout


def test_completion_knows_commands_and_options() -> None:
    for words, expected in (("lamina tr", "train"), ("lamina ask --thr", "--threshold"), ("lamina data ch", "check")):
        environment = os.environ | {"_LAMINA_COMPLETE": "complete_bash", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split()) - 1)
        done = subprocess.run([LAMINA], capture_output=True, text=True, env=environment, check=False)
        assert expected in done.stdout.split(), (words, done.stdout, done.stderr)


def test_completion_installs_itself(tmp_path: Path) -> None:
    """A real bash above the command, in an empty home: shellingham finds it, and its file is written."""
    environment = os.environ | {"HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", f'"{LAMINA}" --install-completion; exit $?'], capture_output=True, text=True, env=environment, check=True
    )
    assert "bash completion installed" in done.stdout
    assert "lamina" in (tmp_path / ".bashrc").read_text() and list(tmp_path.rglob("lamina.sh"))
