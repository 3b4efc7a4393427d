"""The Korean encoders go through the same export: from Korean texts to logits within 0.0001 of torch."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from torch import nn

import lamina
from lamina.config.build import build_model
from lamina.config.parse import parse_recipe
from lamina.data.examples import Example
from lamina.data.windows import make_windows
from lamina.encoder import load as encoders
from lamina.encoder.load import load_tokenizer
from lamina.reader.exporting import export_onnx
from lamina.runs.load import Trained
from lamina.utils.progress import Silent
from tests.runtime.graphs import CLOSE

TEXTS = (
    ("물레방앗간은 누가 지었나요?", "물레방앗간은 1712년에 에이다 손이 지었다. 강가에 있는 오래된 건물이다."),
    ("Who built the mill?", "The mill was built by Ada Thorn."),
    ("왜가리는 무엇을 먹나요?", "왜가리는 매일 아침 야생 꿀을 먹는다. " * 12),
)


@pytest.mark.parametrize("name", ["multilingual-e5-small-ko-en", "albert-kor-base"])
def test_korean_encoders(name: str, shared: Path, tmp_path: Path) -> None:
    recipe = parse_recipe({"data": {"train": "unused"}, "encoder": {"model": str(shared / "encoders" / name)}})
    source = encoders.find(recipe.encoder)
    torch.manual_seed(0)
    model = build_model(recipe, encoders.load(source)).eval()
    with torch.no_grad():
        for parameter in cast(nn.Module, model.task("main").head).parameters():
            parameter.normal_(std=0.05)
    trained = Trained(recipe=recipe, model=model, tokenizer=load_tokenizer(source), language="ko")
    export_onnx(lamina.Reader(trained), tmp_path / "out")
    reader = lamina.load(tmp_path / "out", backend="onnx")
    examples = [Example(str(i), question, text, (), group=str(i), article="") for i, (question, text) in enumerate(TEXTS)]
    windows = make_windows(examples, reader.tokenizer, reader.recipe.window)
    assert np.array_equal(windows.ids, make_windows(examples, trained.tokenizer, recipe.window).ids)
    ours, theirs = (one.spans(windows, "main", Silent()) for one in (reader.trained.engine, trained.engine))
    assert theirs.start.std() > 0.1
    for a, b in ((ours.start, theirs.start), (ours.end, theirs.end)):
        assert np.abs(a - b).max() < CLOSE
