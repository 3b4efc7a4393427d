"""The recipes of paper 004 train on Korean questions, from folders like the checkpoints that they name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer

from lamina.config.bundled import recipe_path
from lamina.config.parse import read_recipe
from lamina.data import multi_context, squad
from lamina.encoder.load import EncoderOptions, digest, find
from lamina.training.trainer import train
from lamina.utils.files import read_json

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "korquad_prerelease.py"
PLACES = ("서울", "부산", "대구", "광주", "인천", "제주", "수원", "울산")
FOODS = ("김치", "냉면", "국수", "만두", "비빔밥", "떡")


def question(number: int) -> dict[str, Any]:
    """Return a question with three paragraphs; the first or second holds the answer, followed by a particle."""
    place, food = PLACES[number % 8], FOODS[number % 6]
    other = PLACES[(number + 3) % 8]
    texts = [
        f"{place}에서 {number}번째로 이름난 음식은 {food}이다.",
        f"{other}에는 오래된 다리가 있다.",
        "이 강은 바다로 흐른다.",
    ]
    if number % 2:
        texts = [texts[1], texts[0], texts[2]]
    paragraphs = [{"title": f"{place} {number}", "contents": text} for text in texts]
    return {"qa": {"id": f"q{number}", "question": f"{place}의 이름난 음식은?", "answer": food}, "paragraphs": paragraphs}


def vocabulary(questions: list[dict[str, Any]]) -> list[str]:
    """Return every word, and every character as the start of a word and within one."""
    text = json.dumps(questions, ensure_ascii=False)
    letters = sorted(set(text) - {" "})
    known = dict.fromkeys([*re.findall(r"\w+", text), *letters, *(f"##{letter}" for letter in letters)])
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *known]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write data and two checkpoints in their published form: a pickled ELECTRA discriminator and a cased BERT."""
    folder = tmp_path_factory.mktemp("korean")
    questions = [question(number) for number in range(32)]
    multi_context.write_questions(folder / "train.jsonl", questions[:24])
    multi_context.write_questions(folder / "dev.jsonl", questions[24:])
    words = vocabulary(questions)
    sizes: dict[str, Any] = {
        "vocab_size": len(words),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    torch.manual_seed(0)
    electra = transformers.ElectraForPreTraining(transformers.ElectraConfig(**sizes, embedding_size=16))
    electra.config.save_pretrained(folder / "koelectra")
    torch.save(electra.state_dict(), folder / "koelectra" / "pytorch_model.bin")
    transformers.BertForMaskedLM(transformers.BertConfig(**sizes)).save_pretrained(folder / "mbert")
    for name in ("koelectra", "mbert"):
        (folder / name / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
        (folder / name / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    return folder


@pytest.mark.parametrize("name", ["koelectra", "mbert"])
def test_a_recipe_trains_from_a_folder_with_the_weights(folder: Path, name: str, tmp_path: Path) -> None:
    settings = {
        "encoder.model": folder / name,
        "encoder.allow_pickle": "true",
        "data.train": folder / "train.jsonl",
        "data.dev": folder / "dev.jsonl",
        "data.holdout": 0.2,
        "train.epochs": 1,
        "train.threads": 1,
    }
    run = train(
        read_recipe(recipe_path(f"korean-qa/{name}"), [f"{field}={value}" for field, value in settings.items()]), tmp_path
    )
    scores, info = read_json(run.scores), read_json(run.info)
    assert run.finished
    assert scores["korquad"]["total"] == 8, "KorQuAD has no contexts without an answer"
    assert (scores["zero"]["total"], scores["questions"]["zero"]["total"]) == (24, 8)
    source = find(EncoderOptions(model=str(folder / name), allow_pickle=True))
    assert info["encoder"]["sha256"] == digest(source) is not None
    tokens = Tokenizer.from_file(str(run.tokenizer)).encode("서울만", add_special_tokens=False).tokens
    assert tokens == ["서울", "##만"], "Hangul syllables are not split"


def test_the_prerelease_is_converted(shared: Path, tmp_path: Path) -> None:
    data, out = shared / "data", tmp_path / "train.json"
    files = [data / "korquad-v1.0-dev-prerelease-2018.json.xz", data / "korquad-prerelease-context-map.json", out]
    done = subprocess.run([sys.executable, SCRIPT, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    examples = squad.read(out)
    assert len(examples) == 5488 and all(example.answers for example in examples)
    dev = squad.read(data / "korquad-v1.0-dev.json.xz")
    assert not {example.context for example in examples} & {example.context for example in dev}
