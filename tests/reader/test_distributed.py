"""Answers of many batches and shards: the same bits however the questions are cut, and whatever process computes them."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet as parquet
import pytest

import lamina
from lamina.data.examples import Example
from lamina.errors import LaminaError
from lamina.reader.distributed import COLUMNS, SPARK_SCHEMA, Answerer
from lamina.reader.shards import find_shards, fingerprint, read_about
from lamina.runtime import choose
from tests import tiny
from tests.command import lamina as command
from tests.golden import TRAINED

WAIT = 120.0  # seconds after which a process is considered stuck
Row = dict[str, Any]


def rows(examples: Sequence[Example]) -> list[Row]:
    return [{"id": one.id, "question": one.question, "context": one.context} for one in examples]


@pytest.fixture(scope="module")
def asked() -> list[Row]:
    return rows(tiny.corpus(8))


@pytest.fixture(scope="module")
def answerer() -> Answerer:
    return Answerer(TRAINED, threshold=2.0)


@pytest.fixture(scope="module")
def expected(asked: list[Row], answerer: Answerer) -> list[Row]:
    """The answers in one process, as rows."""
    found: list[Row] = answerer(pyarrow.Table.from_pylist(asked)).to_pylist()
    return found


def table_of(folder: Path) -> list[Row]:
    """Return the rows of all files of answers."""
    return [row for file in sorted(folder.glob("*.parquet")) for row in parquet.read_table(file).to_pylist()]


def write_shards(folder: Path, asked: Sequence[Row], size: int = 10) -> list[Path]:
    """Write shards in turns as JSONL and parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, start in enumerate(range(0, len(asked), size)):
        part, file = asked[start : start + size], folder / f"part-{number:02d}"
        if number % 2:
            parquet.write_table(pyarrow.Table.from_pylist(list(part)), file.with_suffix(".parquet"))
        else:
            file.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
        files.append(file.with_suffix(".parquet" if number % 2 else ".jsonl"))
    return files


def test_the_answers_are_those_of_the_reader(asked: list[Row], expected: list[Row]) -> None:
    reader = lamina.load(TRAINED, device="cpu", threads=1)
    assert [row["id"] for row in expected] == [row["id"] for row in asked]
    assert {bool(row["answer"]) for row in expected} == {True, False}
    for question, row in zip(asked, expected, strict=True):
        reply = reader.answer(question["question"], question["context"], threshold=2.0)
        assert row["answer"] == (reply.text or "") == question["context"][row["start"] : row["end"]]
        assert row["confidence"] == pytest.approx(reply.confidence, abs=1e-5)
        assert row["no_answer"] == pytest.approx(reply.no_answer, abs=1e-5)


def test_every_cut_and_type_of_batch_gives_the_same_bits(asked: list[Row], expected: list[Row], answerer: Answerer) -> None:
    copy = pickle.loads(pickle.dumps(answerer))
    assert copy == answerer and len(pickle.dumps(answerer)) < 2000, "the model is not pickled"
    for size in (1, 7, 40):
        found: list[Row] = []
        for start in range(0, len(asked), size):
            part = asked[start : start + size]
            columns = {name: np.array([row[name] for row in part], dtype=object) for name in part[0]}
            batch = copy(columns)
            assert {name: values.dtype.kind for name, values in batch.items()} == dict(zip(COLUMNS, "OOiifff", strict=True))
            found += [dict(zip(batch, cells, strict=True)) for cells in zip(*batch.values(), strict=True)]
        assert found == expected
    frame = pandas.DataFrame(asked, index=range(5, 45))
    answers = copy(frame)
    assert answers.to_dict("records") == expected and list(answers.index) == list(range(5, 45))
    pieces = list(copy(iter([frame[:20], frame[20:]])))  # as Spark calls it
    assert pandas.concat(pieces).to_dict("records") == expected


def test_empty_batches_keep_their_columns_and_load_no_model() -> None:
    nobody = Answerer("/no/such/model")
    frame = nobody(pandas.DataFrame({"id": [], "question": [], "context": []}))
    assert list(frame.columns) == list(COLUMNS) and frame.start.dtype == np.int64 and len(frame) == 0
    assert nobody(pyarrow.table({"id": [], "question": [], "context": []})).num_rows == 0
    assert SPARK_SCHEMA.startswith("id string, answer string, start long")


def test_mistakes_of_batches(answerer: Answerer) -> None:
    with pytest.raises(LaminaError, match="has no column id"):
        answerer({"question": ["Who?"], "context": ["Ada."]})
    with pytest.raises(LaminaError, match="batch, row 1"):
        answerer({"id": ["1"], "question": [""], "context": ["Ada."]})
    with pytest.raises(TypeError, match="batch must be"):
        answerer([1, 2])


def test_a_folder_of_shards_is_answered_once(tmp_path: Path, asked: list[Row], expected: list[Row]) -> None:
    files = write_shards(tmp_path / "in", asked)
    (tmp_path / "in" / "part-99.jsonl").touch()  # of an empty partition
    words = ["predict", TRAINED, "--data", tmp_path / "in", "--out", tmp_path / "out", "--workers", 1, "--json"]
    first = command(*words)
    assert first.code == 0, first.err
    counts = json.loads(first.out)
    assert (counts["shards"], counts["kept"], counts["questions"], counts["failed"]) == (5, 0, 40, {})
    plain = [{**row, "answer": "", "start": 0, "end": 0} for row in expected]  # another threshold
    same = ("id", "null_odds")
    assert [[row[name] for name in same] for row in table_of(tmp_path / "out")] == [[r[name] for name in same] for r in plain]
    assert counts["answered"] == sum(bool(row["answer"]) for row in table_of(tmp_path / "out"))
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in (tmp_path / "out").iterdir()}
    assert len(before) == 5 and read_about(tmp_path / "out" / "part-00.parquet")
    (tmp_path / "out" / "part-01.parquet").unlink()
    files[2].write_text("".join(files[2].read_text().splitlines(keepends=True)[:3]))
    again = json.loads(command(*words).out)
    assert (again["kept"], again["questions"]) == (3, 33)
    after = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in (tmp_path / "out").iterdir()}
    assert after["part-00.parquet"] == before["part-00.parquet"]
    assert after["part-01.parquet"][0] == before["part-01.parquet"][0]
    model = json.loads(read_about(tmp_path / "out" / "part-00.parquet")["model"])  # type: ignore[index]
    assert (model["backend"], model["precision"]) == ("torch", "float32"), "not auto"
    refused = command(*words, "--precision", "bfloat16")
    assert refused.code == 2 and "holds answers of another model or of other settings" in refused.err


def test_all_workers_take_the_number_format_that_was_chosen_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(fast: str, answerer: Answerer) -> Answerer:
        """Choose on a machine where one way to compute is the fastest."""
        monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / fast))
        monkeypatch.setattr(choose, "measured", lambda candidates, trial: {one: float(fast not in one) for one in candidates})
        return answerer.decided()

    one, other = chosen("int8", Answerer()), chosen("torch", Answerer(threshold=1.0))
    assert (one.backend, one.precision) == ("onnx", "int8")
    assert (other.backend, other.precision) == ("torch", "float32")
    assert replace(one, threshold=2.0).reader.backend == "onnx, int8", "also where torch is faster"
    assert one.decided() is one
    assert fingerprint(one) != fingerprint(replace(other, threshold=None))
    assert chosen("torch", Answerer(TRAINED, precision="bfloat16")).precision == "bfloat16"


def test_mistakes_of_shards(tmp_path: Path, asked: list[Row]) -> None:
    write_shards(tmp_path / "in", asked[:20])
    (tmp_path / "in" / "part-05.jsonl").write_text('{"question": "Who?"}\n')
    result = command("predict", TRAINED, "--data", tmp_path / "in", "--out", tmp_path / "out", "--workers", 1)
    assert result.code == 2 and "part-05.jsonl: not answered: " in result.err and "Fix: " in result.err
    assert len(table_of(tmp_path / "out")) == 20, "the other shards are answered"
    (tmp_path / "in" / "part-00.csv").write_text("question,context\nWho?,Ada.\n")
    with pytest.raises(LaminaError, match="would replace those of"):
        find_shards(str(tmp_path / "in"), tmp_path / "out")
    with pytest.raises(LaminaError, match="is the folder of the questions"):
        find_shards(str(tmp_path / "in" / "*.jsonl"), tmp_path / "in")
    with pytest.raises(LaminaError, match="no data files"):
        find_shards(str(tmp_path / "*.jsonl"), tmp_path / "out")
    for option in ("--address", "--nbest"):
        refused = command("predict", TRAINED, "--data", tmp_path / "in", "--out", tmp_path / "out", option, "x")
        assert refused.code == 2 and refused.err.startswith(f"lamina: {option}: ")


def children(parent: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            command = (stat.parent / "cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == parent and "spawn_main" in command:
            found.append(int(stat.parent.name))
    return found


@pytest.mark.slow
def test_a_killed_local_worker_loses_nothing(tmp_path: Path, asked: list[Row]) -> None:
    many = [{**row, "id": f"{copy}-{row['id']}"} for copy in range(10) for row in asked]
    write_shards(tmp_path / "in", many, size=20)
    words = [sys.executable, "-P", "-m", "lamina", "predict", str(TRAINED), "--engine", "local", "--data", str(tmp_path / "in")]
    process = subprocess.Popen([*words, "--out", str(tmp_path / "out"), "--workers", "2"], stderr=subprocess.PIPE)
    until = time.monotonic() + WAIT
    while not list(tmp_path.glob("out/part-*.parquet")) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=WAIT)
    assert process.returncode == 0, errors.decode()
    alone = command("predict", TRAINED, "--data", tmp_path / "in", "--out", tmp_path / "alone", "--workers", 1)
    assert alone.code == 0, alone.err
    assert table_of(tmp_path / "out") == table_of(tmp_path / "alone")
    assert [row["id"] for row in table_of(tmp_path / "out")] == [row["id"] for row in many]
