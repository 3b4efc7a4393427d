"""Bad input, full disks and missing rights: each ends a command with one clear line and exit code 2."""

from __future__ import annotations

import ast
import gzip
import io
import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lamina.errors import LaminaError
from lamina.reader.documents import make_document, read_document
from lamina.utils.files import is_file, read_bytes, replacing, write_atomically
from tests.command import Result, lamina
from tests.reader.test_documents import pdf

LAMINA = Path(sys.executable).with_name("lamina")
DIGITS, BRACKETS = "9" * 5000, "[" * 100_000
needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")


def one_line(result: Result, part: str) -> None:
    """Check that a command ended with one line, which holds a part and says what to do."""
    assert result.code == 2, result
    last = result.err.splitlines()[-1]
    assert part in last and last.startswith("lamina: ") and last.count("Fix: ") == 1, result.err
    assert "Traceback" not in result.err


def shell(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command in which $LAMINA is the program."""
    environment = os.environ | {"LAMINA": str(LAMINA), "OMP_NUM_THREADS": "1"} | variables
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=300, check=False)


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ([f"train.lr={DIGITS}"], "setting train.lr: the value cannot be read"),
        ([f"train.lr={BRACKETS}"], "setting train.lr: the value is nested too deeply"),
        ([f"train.batch_tokens={10**30}"], "batch_tokens is too large"),
        (["train.lr=fast"], "lamina: setting train.lr: Input should be a valid number"),
        (["tune.adapters.size=1000000000000"], "model: would have"),
        (["tune.adapters.size=1000000000000000000"], "model: "),
    ],
)
def test_settings_that_no_run_can_have(settings: list[str], part: str, tmp_path: Path) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    one_line(lamina("train", "quickstart", "--out", tmp_path / "run", *words), part)


def test_a_mistake_in_the_file_still_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[data]\ntrain = "fables/train"\n[train]\nlr = "fast"\n')
    one_line(lamina("train", tmp_path / "mine.toml", "--set", "train.seed=1"), f"lamina: {tmp_path / 'mine.toml'}: train.lr")


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.toml", f"x = {BRACKETS}", "nested too deeply"),
        ("a.toml", f"x = {DIGITS}", "is not valid TOML"),
        ("a.json", BRACKETS, "nested too deeply"),
        ("a.json", json.dumps({"data": {"train": "x"}, "mixer": json.loads("[" * 300 + "]" * 300)}), "levels deep"),
    ],
)
def test_recipes_and_spaces_nested_too_deeply(name: str, content: str, part: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    one_line(lamina("train", tmp_path / name), part)
    if name.endswith(".toml"):
        one_line(lamina("tune", "quickstart", "--space", tmp_path / name, "--out", tmp_path / "out"), part)


def test_a_long_name_of_a_field_is_shortened(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"data": {"train": "x"}, "train": {"a" * 5000: 1, "b\r\n\x1b[2J": 2}}))
    result = lamina("train", tmp_path / "a.json")
    one_line(result, "aaaa")
    assert len(result.err) < 2000
    (tmp_path / "a.json").write_text(json.dumps({"data": {"train": "x"}, "train": {"b\r\n\x1b[2J": 2}}))
    one_line(lamina("train", tmp_path / "a.json"), "train.b\\r \\x1b[2J: no such field")


def test_a_recipe_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "bom.toml").write_bytes(b'\xef\xbb\xbf[data]\ntrain = "fables/train"\n')
    shown = lamina("recipes", "show", tmp_path / "bom.toml", "--json")
    assert json.loads(shown.out)["tasks"]["main"]["data"]["train"] == "fables/train"


@pytest.mark.parametrize("command", ["train", "ask", "export", "compare", "tune", "pretrain", "ensemble", "average"])
def test_names_that_are_too_long(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "a" * 5000
    words = {
        "ask": ["--model", name, "--text", "Ada built it.", "Who?"],
        "compare": [name, name],
        "tune": ["quickstart", "--space", name],
        "pretrain": [name, "--out", "out"],
        "ensemble": [name, "--out", "out"],
        "average": [name, "--out", "out"],
        "export": [name, "out"],
    }.get(command, [name])
    result = lamina(command, *words)
    one_line(result, "aaaa")
    result = lamina(command, *(f"{tmp_path}/{'b' * 300}" if word == name else word for word in words))
    one_line(result, "bbbb")


DROPPED = """
import importlib, os, pkgutil, sys
import lamina as library
from tests.command import lamina

for module in pkgutil.walk_packages(library.__path__, "lamina."):  # the other user may not read the installation
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for words in {commands!r}:
    lamina(words[0], "--debug")  # imports what only a command imports
os.setuid(65534)  # root may read everything
os.environ["HOME"] = sys.argv[1]
for words in {commands!r}:
    os.environ["LAMINA_CACHE"] = f"{{sys.argv[1]}}/closed/cache" if words[0] == "cache" else f"{{sys.argv[1]}}/cache"
    result = lamina(*words)
    print(repr((words[0], result.code, result.err)))
"""


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can become another user")
def test_folders_without_permission_as_another_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Check each command on a path below a folder that the user may not enter."""
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        closed = Path(made) / "closed"
        closed.mkdir()
        Path(made).chmod(0o755)
        closed.chmod(0o700)
        place = f"{closed}/run"
        commands = [
            ("train", f"{place}/recipe.toml"),
            ("train", "quickstart", "--out", place),
            ("train", "quickstart", "--set", f"encoder.model={place}", "--out", f"{made}/x"),
            ("ask", "--model", place, "--text", "Ada built it.", "Who?"),
            ("export", place, f"{made}/x"),
            ("compare", place, place),
            ("tune", "quickstart", "--space", "rates", "--out", place),
            ("pretrain", "sentences", "--out", place),
            ("ensemble", place, "--out", f"{made}/x"),
            ("average", place, "--out", f"{made}/x"),
            ("cache", "list"),
        ]
        done = subprocess.run(
            [sys.executable, "-c", DROPPED.format(commands=commands), made],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=300,
            check=False,
        )
    lines = done.stdout.splitlines()
    assert len(lines) == len(commands), done.stderr[-2000:]
    for line in lines:
        _, code, err = ast.literal_eval(line)
        one_line(Result(code, "", err), "ermission denied")


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may read everything")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    one_line(lamina("ask", "--model", tmp_path / "closed" / "run", "--text", "Ada.", "Who?"), "ermission denied")


def test_a_path_that_the_system_refuses_is_a_lamina_error(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match="File name too long"):
        is_file(tmp_path / ("a" * 300))
    with pytest.raises(LaminaError, match="null"):
        read_bytes(Path("a\0b"))


# ---- standard output


@needs_dev_full
@pytest.mark.parametrize("words", ["recipes list", "--version", "data list --json"])
def test_a_full_disk_behind_standard_output(words: str) -> None:
    done = shell(f'"$LAMINA" {words} > /dev/full')
    assert done.returncode == 2
    assert done.stderr == "lamina: output: No space left on device. Fix: free disk space\n"


def test_debug_shows_the_traceback() -> None:
    plain, debug = lamina("recipes", "show", "nothing"), lamina("recipes", "show", "--debug", "nothing")
    assert "Traceback" not in plain.err and "Traceback" in debug.err
    assert plain.code == debug.code == 2
    assert plain.err == debug.err.splitlines()[-1] + "\n"


def test_letters_that_standard_output_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "Who?", "context": "Ada built it.", "answer": "Ada", "id": "\\ud800x"}\n')
    (tmp_path / "b.csv").write_text("question,context,answer\nWho?,Zoë built it.,Élan\n")
    for encoding in ("ascii", "utf-8"):
        for name, part in (("a.jsonl", "\\ud800x"), ("b.csv", "lan' is not in the context")):
            checked = shell(f'"$LAMINA" data check {name}; cd .', PYTHONIOENCODING=encoding, PWD=str(tmp_path))
            checked = shell(f'cd "{tmp_path}" && "$LAMINA" data check {name}', PYTHONIOENCODING=encoding)
            assert checked.returncode == 2 and part in checked.stdout and not checked.stderr
    found = shell(f'cd "{tmp_path}" && "$LAMINA" data check b.csv --json', PYTHONIOENCODING="ascii")
    assert "Élan" in json.loads(found.stdout)["problems"][0], "JSON stays JSON"
    cleaned = shell(f'cd "{tmp_path}" && "$LAMINA" data clean a.jsonl')
    assert cleaned.returncode == 0 and "repaired: " in cleaned.stdout
    assert json.loads((tmp_path / "a-clean.json").read_text())["data"]


# ---- files that never end, or unpack to any size


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    for path, part in ((tmp_path / "pipe.txt", "is a pipe"), (Path("/dev/zero"), "is a device")):
        with pytest.raises(LaminaError, match=part):
            read_document(path)
    one_line(lamina("data", "check", tmp_path / "pipe.txt"), "no such data")
    done = shell('"$LAMINA" ask <(echo "Ada Thorn built the mill.") "Who built the mill?" --json')
    assert json.loads(done.stdout)[0]["answer"] == "Ada Thorn", "a pipe of the shell has an end"
    reading, writing = os.pipe()
    os.write(writing, pdf("Ada Thorn built the mill."))
    os.close(writing)
    try:
        assert read_document(Path(f"/dev/fd/{reading}")).text == "Ada Thorn built the mill."
    finally:
        os.close(reading)


def test_packed_files_that_unpack_to_more_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bomb.txt.gz").write_bytes(gzip.compress(b"a" * 5_000_000))
    (tmp_path / "plain.txt").write_bytes(b"a" * 5_000_000)
    assert len(read_document(tmp_path / "bomb.txt.gz").text) == 5_000_000
    for name in ("bomb.txt.gz", "plain.txt"):
        monkeypatch.delenv("LAMINA_MAX_BYTES", raising=False)
        result = lamina("ask", tmp_path / name, "Who?", "--max-bytes", 1_000_000)
        one_line(result, f"{name}: holds more than 1,000,000 bytes")
    monkeypatch.setenv("LAMINA_MAX_BYTES", "many")
    with pytest.raises(LaminaError, match="LAMINA_MAX_BYTES: 'many' is not a number of bytes"):
        read_document(tmp_path / "plain.txt")


def test_a_word_file_that_unpacks_to_more_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 2_000_000)
    monkeypatch.setenv("LAMINA_MAX_BYTES", "1000000")
    with pytest.raises(LaminaError, match=r"a\.docx: unpacks to 2,000,000 bytes"):
        make_document("a.docx", packed.getvalue(), ".docx")


@pytest.mark.parametrize(
    "unit",
    ["<!--", "<![CDATA[", "<a ", "<", "</", "<!", '<a b="', "<?", "<script></", "</a ", "<a b=c ", "&#", "<b> </b>", "<a b='"],
)
def test_html_is_read_in_linear_time(unit: str) -> None:
    """Read a file that took the standard parser hours. The time is not measured: a test of hours would be stopped."""
    assert make_document("a.html", b"<html><p>Ada" + unit.encode() * 50_000, ".html").text.startswith("Ada")


def test_html_keeps_the_text_after_a_tag_that_never_ends() -> None:
    assert make_document("a", b"<p>Ada built <b>it</b>. <a href='x", ".html").text == "Ada built it. <a href='x"
    assert (
        make_document("a", b'<p title="1 > 0">Ada</p><!-- <p>no</p> -->&#99999999999999999999;&lt;b', ".html").text
        == "Ada\n\ufffd<b"
    )
    digits = b"&#" + b"9" * 5000 + b";"
    assert make_document("a", b"<p>Ada " + digits, ".html").text == "Ada \ufffd"
    spaces = b"<pre>a" + b" " * 300_000 + b"b</pre>"
    assert make_document("a", spaces, ".html").text == "a b"


# ---- what is written


def test_written_files_have_the_rights_of_any_new_file(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        with replacing(tmp_path / "a") as draft:
            draft.unlink()
            draft.touch(mode=0o600)  # as safetensors does
        write_atomically(tmp_path / "b", b"b")
    finally:
        os.umask(old)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [0o644, 0o644]


FULL = """
import resource, sys
from pathlib import Path
import torch
from safetensors.torch import save_file
from lamina.errors import LaminaError
from lamina.utils.files import replacing, write_json

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # the disk takes no more of any file
folder = Path(sys.argv[1])
big = {"a": torch.zeros(100_000)}

def save(draft):
    with draft.open("wb") as file:
        torch.save(big, file)

for name, write in (("model.safetensors", lambda draft: save_file(big, draft)), ("checkpoint.pt", save)):
    (folder / name).write_text("old")
    try:
        with replacing(folder / name) as draft:
            write(draft)
    except LaminaError as error:
        assert "cannot be written" in str(error) and "\\n" not in str(error), error
        print(error)
    assert (folder / name).read_text() == "old"
assert sorted(path.name for path in folder.iterdir()) == ["checkpoint.pt", "model.safetensors"]
"""


@pytest.mark.skipif(os.name != "posix", reason="needs setrlimit")
def test_torch_and_safetensors_on_a_full_disk(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Fix: ") == 2


# ---- confusing answers


def test_a_run_that_does_not_exist_is_not_looked_for_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine" / "good").mkdir(parents=True)
    (tmp_path / "mine" / "good" / "run.json").write_text("{}")
    one_line(lamina("ask", "--model", "runs/none", "--text", "Ada.", "Who?"), "there is no such run in the folder runs")
    one_line(lamina("ask", "--model", "mine/god", "--text", "Ada.", "Who?"), "did you mean mine/good?")


def test_an_ensemble_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "ensemble.json").write_text("{}")
    one_line(lamina("ask", "--model", tmp_path, "--text", "Ada.", "Who?"), "is an ensemble, which holds answers but no model")


def test_inspect_fails_if_the_chosen_data_is_missing() -> None:
    result = lamina("inspect", "quickstart", "--set", "data.train=nothing.csv", "--set", "data.dev=none", "--threads", 1)
    one_line(result, "nothing.csv: no such data")
    assert "parameters: " in result.out


def test_only_recipes_are_shown(tmp_path: Path) -> None:
    (tmp_path / "notes.toml").write_text("a secret\n")
    one_line(lamina("recipes", "show", "/etc/passwd"), "is no recipe")
    one_line(lamina("recipes", "show", tmp_path / "notes.toml"), "is not valid TOML")


def test_words_for_no_answer_are_explained(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question,context,answer\nWho?,Ada built it.,Ada\nWhy?,Ada built it.,N/A\n")
    assert "Fix: leave the answer empty" in lamina("data", "check", tmp_path / "a.csv").out
    cleaned = lamina("data", "clean", tmp_path / "a.csv").out
    assert "data clean" not in cleaned and "1 question, 0 problems repaired, 1 left out" in cleaned


def test_keys_of_jsonl_may_have_capitals(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"Question": "Who?", "Context": "Ada built it.", "Answer": "Ada"}\n')
    assert (
        "1 question (0 unanswerable) with 1 answer, on 1 context of 1 article"
        in lamina("data", "check", tmp_path / "a.jsonl").out
    )


def test_flags_have_no_value_in_the_help() -> None:
    text = lamina("ask", "-h").out
    (line,) = [line for line in text.splitlines() if "--json " in line]
    assert "bool" not in line


def test_a_flag_takes_no_value() -> None:
    one_line(lamina("ask", "--text", "Ada built it.", "Who?", "--json", "true"), "--json: takes no value, but true follows")
    one_line(lamina("data", "check", "fables/dev", "--json", "true"), "--json: takes no value")
