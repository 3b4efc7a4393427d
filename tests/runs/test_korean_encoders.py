"""The Korean encoders load, train, export and answer like every other encoder, with the recipes that are for them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import lamina
from lamina.config.bundled import recipe_path
from lamina.config.parse import read_recipe
from lamina.data.squad import read, to_squad
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, make_windows
from lamina.encoder.load import EncoderOptions, find, load
from lamina.errors import LaminaError
from lamina.model.inference import span_logits
from lamina.runs.export import export
from lamina.tasks.checks import build_on_meta
from lamina.training.trainer import train
from lamina.utils.files import read_json, write_json
from tests import tiny

RECIPES = {"multilingual-e5-small-ko-en": "multilingual-e5", "albert-kor-base": "albert-kor"}
POSITIONS = {"multilingual-e5-small-ko-en": 512, "albert-kor-base": 256}
QUESTION = "한글은 누가 만들었는가?"
CONTEXT = "한글은 세종대왕(世宗大王)이 1443년에 만들었다. English words 도 섞여 있다."


def their_tokenizer(folder: Path) -> Any:
    """Return the folder's tokenizer as transformers has it. Its class for ALBERT cannot read a WordPiece vocabulary."""
    pad = "<pad>" if "e5" in folder.name else "[PAD]"
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token=pad)


@pytest.mark.parametrize("name", RECIPES)
def test_every_layer_equals_transformers(shared: Path, name: str) -> None:
    folder = shared / "encoders" / name
    encoder = load(find(EncoderOptions(model=str(folder))))
    theirs = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    batch = their_tokenizer(folder)([QUESTION, CONTEXT], padding=True, return_tensors="pt", return_token_type_ids=True)
    mask = batch["attention_mask"].bool()
    with torch.inference_mode():
        expected = theirs(**batch, output_hidden_states=True).hidden_states
        embedded = encoder.embed(batch["input_ids"], batch["token_type_ids"])
        ours = encoder(embedded, mask, keep=range(len(expected))).states
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one[mask], other[mask], atol=1e-5 * other[mask].abs().max().item(), rtol=0)


@pytest.mark.parametrize("name", RECIPES)
def test_tokens_of_a_pair_equal_transformers(shared: Path, name: str) -> None:
    folder = shared / "encoders" / name
    theirs = their_tokenizer(folder)(QUESTION, CONTEXT, return_token_type_ids=True)
    tokenizer = Tokenizer(folder / "tokenizer.json")
    windows = make_windows([tiny.example(CONTEXT, question=QUESTION)], tokenizer, WindowOptions())
    assert windows.ids.tolist() == theirs["input_ids"]
    assert windows.type_ids.tolist() == theirs["token_type_ids"]


@pytest.mark.parametrize("name", RECIPES)
def test_longer_windows_than_positions_are_refused(shared: Path, name: str) -> None:
    path, folder, positions = recipe_path(f"korean-qa/{RECIPES[name]}"), shared / "encoders" / name, POSITIONS[name]
    settings = [f"encoder.model={folder}", f"window.length={positions + 1}"]
    what = f"window.length: is {positions + 1}, but {folder} has {positions} positions"
    message = f"{what}. Fix: set window.length to at most {positions}"
    with pytest.raises(LaminaError, match=f"^{re.escape(message)}$"):
        build_on_meta(read_recipe(path, settings))
    build_on_meta(read_recipe(path, [settings[0], f"window.length={positions}"]))
    assert read_recipe(path).window.length <= positions


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:augment.unanswerable")  # two articles have few similar texts
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_trains_exports_and_answers(shared: Path, name: str, tmp_path: Path) -> None:
    examples = read(shared / "data/korquad-v1.0-dev.json.xz")
    articles = list(dict.fromkeys(example.article for example in examples))[2:4]
    few = [example for article in articles for example in [one for one in examples if one.article == article][::20]]
    write_json(tmp_path / "few.json", to_squad(few))
    settings = [
        f"encoder.model={shared / 'encoders' / name}",
        f"data.train={tmp_path / 'few.json'}",
        f"data.dev={tmp_path / 'few.json'}",
        "data.holdout=0.4",
        "augment.unanswerable.share=0.3",
        "train.epochs=0.3",
        "train.batch_tokens=512",
        "train.threads=1",
    ]
    run = train(read_recipe(recipe_path(f"korean-qa/{RECIPES[name]}"), settings), tmp_path / "run")
    scores = read_json(run.scores)
    assert run.finished and scores["korquad"]["total"] == len(few)

    reader = lamina.load(run.path, device="cpu")
    export(reader.trained, tmp_path / "exported")
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "exported").eval()
    inputs = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")(QUESTION, CONTEXT, return_tensors="pt")
    with torch.no_grad():
        theirs = model(**inputs)
    windows = make_windows([tiny.example(CONTEXT, question=QUESTION)], reader.tokenizer, reader.recipe.window)
    assert inputs["input_ids"][0].tolist() == windows.ids.tolist()
    ours = span_logits(reader.model, windows)
    for one, other in ((ours.start, theirs.start_logits), (ours.end, theirs.end_logits)):
        np.testing.assert_allclose(one, other[0].numpy(), atol=1e-4 * np.abs(one).max())

    again = lamina.load(tmp_path / "exported", device="cpu")
    long_text = "이 강은 바다로 흐른다. " * 60 + CONTEXT
    for loaded in (reader, again):
        reply = loaded.answer(QUESTION, long_text, threshold=1e6)
        assert reply.text and reply.text in long_text
