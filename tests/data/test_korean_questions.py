"""Korean questions: our own short test set, and the training set that a script puts together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lamina.answers.decode import decode
from lamina.data.squad import check, read
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, make_windows
from lamina.scoring.squad import score_squad2

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "tests/korean/dalbit.json"


def test_our_questions_are_twenty_and_some_have_no_answer() -> None:
    report = check(OURS)
    assert not report.problems
    assert (report.counts.contexts, report.counts.questions, report.counts.unanswerable) == (3, 20, 6)


@pytest.mark.parametrize("encoder", ["multilingual-e5-small-ko-en", "albert-kor-base"])
def test_a_perfect_model_has_a_perfect_score_on_our_questions(shared: Path, encoder: str) -> None:
    """Check that the right tokens give each answer exactly, particles aside, so that a run can reach 100."""
    examples = read(OURS)
    tokenizer = Tokenizer(shared / "encoders" / encoder / "tokenizer.json")
    windows = make_windows(examples, tokenizer, WindowOptions(length=256, step=128))
    start, end = np.zeros((2, len(windows.ids)), np.float32)
    start[windows.starts[:-1] + windows.gold[:, 0]] = 9
    end[windows.starts[:-1] + windows.gold[:, 1]] = 9
    found = {one.id: answer.text if (answer := one.answer()) else "" for one in decode(windows, start, end, examples)}
    golds = {example.id: [answer.text for answer in example.answers] for example in examples}
    assert score_squad2(golds, found)["exact"] == 100


def put_together(*arguments: Path | str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts/korean_questions.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def corpus(path: Path, *articles: tuple[str | None, str, str]) -> Path:
    """Write a SQuAD file with one paragraph and one question per article: title, context, id."""
    data = [
        {
            "paragraphs": [
                {
                    "context": context,
                    "qas": [{"id": own, "question": "무엇?", "answers": [{"text": context[:2], "answer_start": 0}]}],
                }
            ]
        }
        | ({} if title is None else {"title": title})
        for title, context, own in articles
    ]
    path.write_text(json.dumps({"data": data}), encoding="utf-8")
    return path


def test_files_are_put_together_without_the_dev_set(tmp_path: Path) -> None:
    unseen = "하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열"
    one = corpus(tmp_path / "one.json", ("긴_강", "강은 길다", "0"), (None, "산은 높다", "1"))
    other = corpus(
        tmp_path / "other.json", ("긴 강", "강은 깊다", "0"), (None, "들은 넓다", "0"), ("수", f"새 {unseen[3:]}", "2")
    )
    dev = corpus(tmp_path / "dev.json", ("수", unseen, "0"))
    done = put_together(one, other, tmp_path / "out.json", "--without", dev)
    assert done.returncode == 0, done.stderr
    assert "one.json: 0 questions left out" in done.stdout and "other.json: 1 questions left out" in done.stdout
    examples = read(tmp_path / "out.json")
    assert {example.context for example in examples} == {"강은 길다", "산은 높다", "강은 깊다", "들은 넓다"}
    assert len({example.id for example in examples}) == 4
    articles = {example.context: example.article for example in examples}
    assert articles["강은 길다"] == articles["강은 깊다"] == "긴 강"
    assert len(set(articles.values())) == 3, "articles without a title are different ones"


def test_the_training_file_must_not_overwrite_its_sources(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one.json", ("강", "강은 길다", "0"))
    done = put_together(one, one)
    assert done.returncode == 1 and "is the original, which is never overwritten. Fix: name another file" in done.stderr


def test_the_real_training_set(shared: Path, tmp_path: Path) -> None:
    data = shared / "data"
    prerelease = tmp_path / "prerelease.json"
    files = [data / "korquad-v1.0-dev-prerelease-2018.json.xz", data / "korquad-prerelease-context-map.json", prerelease]
    subprocess.run([sys.executable, ROOT / "scripts/korquad_prerelease.py", *files], check=True, capture_output=True)
    sources = [prerelease, data / "tydiqa-goldp-ko-train.json.xz", data / "klue-mrc-part.json.xz"]
    dev = data / "korquad-v1.0-dev.json.xz"
    done = put_together(*sources, tmp_path / "korean-train.json", "--without", dev)
    assert done.returncode == 0, done.stderr
    examples = read(tmp_path / "korean-train.json")
    assert len(examples) == 11_059 - 4 and all(example.answers for example in examples)
    assert not {example.context for example in examples} & {example.context for example in read(dev)}
    assert len({example.article for example in examples}) > 4000
