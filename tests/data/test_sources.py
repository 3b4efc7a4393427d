from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zlib import crc32

import pytest

from lamina.data import fables, sources
from lamina.data.convert import question_rows
from lamina.data.examples import Answer, Example, Sentence
from lamina.data.fables.sentences import make_sentences
from lamina.data.parquet import parquet_bytes
from lamina.data.sentences import ColumnOptions, SentenceReading
from lamina.data.squad import to_squad
from lamina.data.squad_format import SquadCorpus
from lamina.errors import LaminaError

EXAMPLE = Example("q1", "What flies?", "An owl flies.", (Answer("An owl", 0),), "q1", "Owls")
CORPUS = to_squad([EXAMPLE])


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(CORPUS))
    return path


def complaint(name: str) -> str:
    with pytest.raises(LaminaError) as caught:
        sources.locate_data(name)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAMINA_DATA", raising=False)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("LAMINA_DATA", str(folder))
    return folder


# ---- names on this machine


def test_bundled_names_come_first_and_are_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits: list[str] = []

    def make(split: str) -> SquadCorpus:
        splits.append(split)
        return CORPUS

    monkeypatch.setattr(fables, "make", make, raising=False)
    write(tmp_path / "fables" / "dev")
    assert sources.locate_data("fables/dev") == sources.Bundled("dev")
    assert sources.load_examples("fables/dev") == [EXAMPLE]
    assert splits == ["dev"]


def test_path_comes_before_the_data_folder(tmp_path: Path, data: Path) -> None:
    write(data / "own.json")
    assert sources.locate_data("own.json") == data / "own.json"
    write(tmp_path / "own.json")
    assert sources.locate_data("own.json") == Path("own.json")
    assert sources.load_examples("own.json") == [EXAMPLE]


@pytest.mark.parametrize("ending", ["", ".json", ".json.xz", ".jsonl.gz", ".csv", ".csv.xz", ".tsv", ".tsv.gz"])
def test_data_folder_adds_the_ending(data: Path, ending: str) -> None:
    file = data / "sub" / f"own-v1.1{ending}"
    file.parent.mkdir()
    file.touch()
    assert sources.locate_data("sub/own-v1.1") == file


def test_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sources.locate_data("~/" + write(tmp_path / "own.json").name) == tmp_path / "own.json"


def test_an_unknown_name_lists_the_places_and_close_names(data: Path) -> None:
    write(data / "squad2-dev.json")
    text = complaint("squad2-dv")
    assert "no file squad2-dv" in text
    assert f"$LAMINA_DATA ({data})" in text
    assert "did you mean 'squad2-dev'" in text


def test_unknown_path_suggests_close_names(tmp_path: Path) -> None:
    write(tmp_path / "corpora" / "train.json")
    text = complaint("corpora/trian.json")
    assert "$LAMINA_DATA is not set" in text
    assert "did you mean 'corpora/train.json'" in text


def test_unknown_bundled_name_raises() -> None:
    assert "'fables/train'" in complaint("fables/trian")


def test_an_empty_name_is_not_the_current_folder() -> None:
    assert complaint("") == complaint(" ") == 'data: the name is "". Fix: name a file or a dataset, as in data.train=my.csv'


def test_folder_is_not_data(tmp_path: Path) -> None:
    write(tmp_path / "corpora" / "train.json")
    assert complaint("corpora").endswith("is a folder. Fix: name a file in it: train.json; or a split, as in corpora:train")
    write(tmp_path / "deep" / "data" / "train.json")
    fix = "Fix: name a file in it: data/train.json; or a split, as in deep:train"
    assert complaint("deep").endswith(f"is a folder. {fix}") and sources.load_examples("deep:train") == [EXAMPLE]
    (tmp_path / "empty").mkdir()
    assert complaint("empty").endswith("is a folder without data files. Fix: name a file with data")


def test_a_dataset_of_the_hub_without_a_split() -> None:
    assert complaint("ann/owls").endswith("Fix: see the names with lamina data list; on the hub: ann/owls:train")


@pytest.mark.parametrize("name", ["hub:a/b/../../x.csv", "hub:a/b/./x.csv", "hub:a/b//x.csv"])
def test_a_name_on_the_hub_has_no_dots(name: str) -> None:
    assert complaint(name).startswith(f"{name}: not a name on the hub. Fix: ")


def test_numbered_files_of_a_folder_are_shards(tmp_path: Path) -> None:
    for number, name in enumerate("cab"):
        row = {"id": name, "question": "Who?", "context": "An owl.", "answer": "owl"}
        file = tmp_path / "own" / "default" / "train" / f"000{number}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(row) + "\n")
    assert [example.id for example in sources.load_examples("own:train")] == ["c", "a", "b"]
    (file.parent / "meta.jsonl").write_text("{}")
    assert "several files fit: default/train/0000.jsonl, " in complaint("own:train")


def test_a_missing_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DATA", "/nowhere/at/all")
    assert "/nowhere/at/all, which is no folder" in complaint("x")
    assert [listed.name for listed in sources.available()] == list(sources.BUNDLED)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_impossible_file_names_raise(name: str) -> None:
    assert "no such data" in complaint(name)


def test_available(data: Path) -> None:
    file = write(data / "sub" / "own.json")
    (data / "notes.txt").touch()
    assert sources.available() == [
        *(sources.AvailableData(name, "generated") for name in sources.BUNDLED),
        sources.AvailableData("sub/own.json", "json", file.stat().st_size, file),
    ]
    assert sources.locate_data("sub/own.json") == file


# ---- sentences


def test_sentences_are_found_by_the_same_names(tmp_path: Path, data: Path) -> None:
    (data / "owls.tsv").write_text("text\tlabel\tmood\nAn owl flies.\t1\tgood\n")
    expected = [Sentence("1", "An owl flies.", None, "1")]
    assert sources.load_sentences("owls") == sources.load_sentences("owls.tsv") == expected
    assert sources.load_sentences(str(data / "owls.tsv")) == expected
    assert sources.load_sentences("owls", SentenceReading(ColumnOptions(label="mood")))[0].label == "good"
    assert [(listed.name, listed.format) for listed in sources.available()][-1] == ("owls.tsv", "tsv")
    assert "did you mean 'owls'" in complaint("owl")


@pytest.mark.usefixtures("hub")
def test_sentences_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hub, "files", ("train.tsv", "dev.tsv"))
    monkeypatch.setattr(Hub, "body", b"text\tlabel\nAn owl flies.\t1\n")
    assert sources.load_sentences("ann/owls:dev") == [Sentence("1", "An owl flies.", None, "1")]
    assert len(sources.load_sentences("hub:ann/owls/train.tsv")) == 1


@pytest.mark.parametrize("name", ["owls.tsv", "owls.csv", "owls.jsonl"])
def test_sentences_are_not_read_as_questions(data: Path, name: str) -> None:
    text = '{"text": "An owl", "label": 1}\n' if name.endswith("jsonl") else "text\tlabel\nAn owl\t1\n"
    (data / name).write_text(text)
    with pytest.raises(LaminaError, match=r"^owls: holds labelled sentences, which the heads of sentences read, not questions"):
        sources.load_examples("owls")


def test_questions_are_not_read_as_sentences(data: Path) -> None:
    write(data / "own.json")
    (data / "table.csv").write_text("question,context,answer\nWhat flies?,An owl flies.,An owl\n")
    for name in ("own", "table", "fables/dev"):
        with pytest.raises(LaminaError, match="questions to contexts, which the span heads read"):
            sources.load_sentences(name)


@pytest.mark.parametrize("name", [name for name in sources.BUNDLED if name.count("/") == 2])
def test_bundled_sentences(name: str) -> None:
    _, task, split = name.split("/")
    assert sources.load_sentences(name) == make_sentences(task, split)  # type: ignore[arg-type]
    with pytest.raises(LaminaError, match=f"^{name}: holds labelled sentences, which the heads of sentences read"):
        sources.load_examples(name)


def test_a_file_of_neither_kind_has_the_message_of_its_reader(data: Path) -> None:
    (data / "odd.csv").write_text("when,where\n1,2\n")
    with pytest.raises(LaminaError, match="the header needs the columns question, context, answer"):
        sources.load_examples("odd")
    with pytest.raises(LaminaError, match="no column is surely the text"):
        sources.load_sentences("odd")


def test_import_loads_no_large_library() -> None:
    code = "import sys, lamina.data.sources; print(*{'torch', 'huggingface_hub', 'regex', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# ---- the hub


class Hub(BaseHTTPRequestHandler):
    """A server with the dataset ann/owls: it lists files and sends them, as the hub does."""

    files = ("README.md", "data/train-v1.json", "data/dev-v1.json", "data/dev.json", "extra/a-test.csv", "b_test.jsonl")
    body = json.dumps(CORPUS).encode()
    bodies: Mapping[str, bytes] = {}  # of files that differ from `body`

    def do_GET(self) -> None:
        base, _, rest = self.path.partition("?")[0].partition("/resolve/main/")
        if self.path.startswith("/api/datasets/ann/owls/tree/main"):
            tree = [{"type": "file", "path": file, "size": len(self.body), "oid": "0" * 40} for file in self.files]
            self.reply(200, json.dumps(tree).encode())
        elif base == "/datasets/ann/owls" and rest in self.files:
            body = self.bodies.get(rest, self.body)
            self.reply(200, body, {"ETag": f'"{crc32(body):x}"', "X-Repo-Commit": "1" * 40})
        elif "/ann/owls" in self.path:
            self.reply(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": "1" * 40})
        else:
            self.reply(404, b"", {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET  # noqa: N815

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Length": str(len(body)),
            "Content-Type": "application/json",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from huggingface_hub import close_session, constants

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    close_session()
    yield
    close_session()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def offline(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import close_session, constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    close_session()


def cached_hub(cache: Path, files: list[str]) -> None:
    """Write the cache that huggingface_hub has after a download of these files of ann/owls."""
    root = cache / "datasets--ann--owls"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text("1" * 40)
    for file in files:
        write(root / "snapshots" / ("1" * 40) / file)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("name", ["hub:ann/owls/data/dev-v1.json", "ann/owls:dev", "ann/owls:train", "hub:ann/owls:dev"])
def test_fetches_from_the_hub(name: str, cache: Path) -> None:
    path = sources.locate_data(name)
    assert isinstance(path, Path)
    assert path.is_relative_to(cache)
    assert sources.load_examples(name) == [EXAMPLE]


@pytest.mark.usefixtures("hub")
def test_a_split_is_the_whole_name_of_a_file_or_a_word_of_it() -> None:
    assert str(sources.locate_data("ann/owls:dev")).endswith("data/dev.json")
    assert str(sources.locate_data("ann/owls:train")).endswith("data/train-v1.json")
    assert complaint("ann/owls:test") == (
        "ann/owls:test: several files fit: b_test.jsonl, extra/a-test.csv. Fix: name one, as in hub:ann/owls/b_test.jsonl"
    )
    assert "no file of ann/owls is named after 'tset'" in complaint("ann/owls:tset")


@pytest.mark.usefixtures("hub")
def test_missing_datasets_and_files_of_the_hub() -> None:
    assert "ann/owls has no file gone.json" in complaint("hub:ann/owls/gone.json")
    assert "the hub has no dataset bob/owls for you" in complaint("hub:bob/owls/dev.json")
    text = complaint("bob/owls:dev")
    assert "the hub has no dataset bob/owls for you" in text
    assert "$LAMINA_DATA is not set" in text


def parquet_of(*names: str) -> bytes:
    """Return a parquet file of unanswerable questions with these ids, as the hub holds SQuAD 2.0."""
    examples = [Example(name, "What flies?", "An owl flies.", (), name, "Owls") for name in names]
    rows = question_rows(examples, texts=False)
    return parquet_bytes(list(rows[0]), rows)


SHARDS = {
    "squad_v2/train-00000-of-00002.parquet": parquet_of("a", "b"),
    "squad_v2/train-00001-of-00002.parquet": parquet_of("c"),
    "squad_v2/validation-00000-of-00001.parquet": parquet_of("d"),
    "other/validation-00000-of-00001-0123456789abcdef.parquet": parquet_of("e"),
    "plain/test-00000-of-00002-0123456789abcdef.parquet": parquet_of("f"),
    "plain/test-00001-of-00002-fedcba9876543210.parquet": parquet_of("g"),
}
NAMES = [
    ("ann/owls:train", "abc"),
    ("hub:ann/owls/squad_v2:train", "abc"),
    ("ann/owls/squad_v2:validation", "d"),
    ("ann/owls/other:validation", "e"),
    ("ann/owls:test", "fg"),
    ("hub:ann/owls/squad_v2/train-00001-of-00002.parquet", "c"),
]


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(("name", "ids"), NAMES)
def test_shards_and_configs_of_the_hub(monkeypatch: pytest.MonkeyPatch, name: str, ids: str) -> None:
    monkeypatch.setattr(Hub, "files", tuple(SHARDS))
    monkeypatch.setattr(Hub, "bodies", SHARDS)
    assert [example.id for example in sources.load_examples(name)] == list(ids)


@pytest.mark.usefixtures("hub")
def test_configs_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hub, "files", tuple(SHARDS))
    message = complaint("ann/owls:validation")
    assert "several files fit: other/validation-00000-of-00001-0123456789abcdef.parquet, squad_v2/valid" in message
    assert message.endswith("0123456789abcdef.parquet, or a config, as in ann/owls/other:SPLIT")
    assert "no file of the config 'owls' of ann/owls is named after 'train'" in complaint("ann/owls/owls:train")


@pytest.mark.parametrize(("name", "ids"), [("ann/owls:train", "abc"), ("ann/owls:test", "fg"), ("ann/owls/other:train", "")])
def test_a_local_folder_of_the_same_shape(tmp_path: Path, name: str, ids: str) -> None:
    for file, content in SHARDS.items():
        (tmp_path / "ann" / "owls" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ann" / "owls" / file).write_bytes(content)
    if ids:
        assert [example.id for example in sources.load_examples(name)] == list(ids)
        (tmp_path / "ann" / "owls" / "squad_v2" / "train-00000-of-00002.parquet").unlink()
        assert "found 1 of 2 shards" in complaint("ann/owls:train")
    else:
        assert "no file of ann/owls/other is named after 'train'" in complaint(name)


@pytest.mark.usefixtures("offline")
def test_offline_the_cache_must_hold_all_shards(cache: Path) -> None:
    cached_hub(cache, ["squad_v2/train-00000-of-00002.parquet"])
    assert "found 1 of 2 shards (squad_v2/train-00000-of-00002.parquet). Fix: " in complaint("ann/owls:train")


@pytest.mark.usefixtures("offline")
def test_the_cache_is_used_offline(cache: Path) -> None:
    cached_hub(cache, ["data/dev-v1.json", "train.json"])
    assert sources.load_examples("hub:ann/owls/data/dev-v1.json") == [EXAMPLE]
    assert sources.load_examples("ann/owls:dev") == [EXAMPLE]
    assert "HF_HUB_OFFLINE" in complaint("hub:ann/owls/other.json")


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", ["hub:ann/owls/dev.json", "ann/owls:dev"])
def test_offline_without_a_cache_raises_one_line(name: str) -> None:
    assert "the hub is switched off (HF_HUB_OFFLINE)" in complaint(name)


def test_the_environment_variable_switches_the_hub_off(tmp_path: Path) -> None:
    code = "from lamina.data.sources import locate_data; locate_data('hub:ann/owls/dev.json')"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "LaminaError: hub:ann/owls/dev.json: the hub is switched off (HF_HUB_OFFLINE)" in done.stderr


def test_unreachable_hub_raises_one_line(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    def unreachable(*_: object, **__: object) -> str:
        raise HfHubHTTPError.__bases__[0]("Connection refused")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    assert "the hub cannot be reached" in complaint("hub:ann/owls/dev.json")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hub:owls", "write hub:owner/name/path/of/file.json or owner/name:split"),
        ("hub:ann/owls/dev.txt", "unknown ending. Fix: name one of the .json, .jsonl, .csv, .tsv and .parquet files"),
        ("hub:ann/owls--x/dev.json", "cannot be the name of a dataset"),
    ],
)
def test_wrong_names_fail_without_the_hub(name: str, message: str) -> None:
    assert message in complaint(name)
