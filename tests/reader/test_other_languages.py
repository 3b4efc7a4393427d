"""Warnings for texts and questions in another language than the model's."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

import lamina as library
from lamina.errors import LaminaWarning
from lamina.reader.other_languages import MOST
from lamina.reader.search import search
from lamina.utils.run_folder import Run
from tests.command import lamina
from tests.data.test_languages import ENGLISH, TEXTS
from tests.golden import TRAINED

MILL = "Who built the mill?"


def reader(language: str | None = "en") -> library.Reader:
    return library.Reader(replace(library.load(TRAINED, device="cpu").trained, language=language))


def warned(seen: list[warnings.WarningMessage]) -> list[str]:
    assert all(warning.category is LaminaWarning for warning in seen)
    return [str(warning.message) for warning in seen]


def asked(model: library.Reader, questions: str | list[str], texts: str | list[str]) -> list[str]:
    """Return the warnings of an answer."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.answer(questions, texts)
    return warned(seen)


@pytest.mark.parametrize("code", ["de", "fr", "es", "pt", "it", "nl", "sv", "pl", "tr", "vi", "id"])
def test_text_in_another_language_gives_one_line(code: str) -> None:
    model = reader()
    (line,) = asked(model, [MILL, "When was it built?"], TEXTS[code])
    assert (
        line.startswith("text 1 (") and "but the model was trained on English" in line and "Fix: " in line and "\n" not in line
    )
    assert asked(model, "How tall is it?", TEXTS[code]) == [], "once about each text"


def test_english_texts_and_models_without_a_language_give_none() -> None:
    assert asked(reader(), MILL, list(ENGLISH.values())) == []
    assert asked(reader(None), "Qui a construit le moulin de la ville ?", TEXTS["fr"]) == []


def test_question_in_another_language() -> None:
    (line,) = asked(reader(), [MILL, "Qui a construit le moulin de la ville ?"], ENGLISH["plain"])
    assert line.startswith("question 2: looks like French")


def test_text_in_another_script_gives_one_line() -> None:
    (line,) = asked(reader(), MILL, TEXTS["ko"])
    assert "outside the encoder's vocabulary" in line, "not a second line about its language"


def test_english_text_for_a_korean_model() -> None:
    (line,) = asked(reader("ko"), "누가?", ENGLISH["plain"])[:1]
    assert "looks like English, but the model was trained on Korean" in line


def test_many_texts_give_a_bounded_number_of_lines(tmp_path: Path) -> None:
    texts = [f"{number} {TEXTS['fr']}" for number in range(MOST + 5)]
    lines = asked(reader(), MILL, texts)
    assert len(lines) == MOST + 1 and lines[-1].startswith("5 more texts look like other languages than English")

    files = [tmp_path / f"{number}.txt" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        search(reader(), [MILL], files)
    found = warned(seen)
    assert len(found) == MOST + 1 and found[0].startswith(f"{files[0]}: looks like French")


def test_search_in_batches_has_the_same_bound(tmp_path: Path) -> None:
    reading = reader().text_by_text([MILL])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for number in range(MOST + 5):
            reading.read([f"{number} {TEXTS['de']}"])
    assert len(warned(seen)) == MOST


def test_saved_model_keeps_its_language_and_the_command_prints_one_line(tmp_path: Path) -> None:
    reader().save(tmp_path / "model")
    assert library.load(tmp_path / "model").trained.language == "en"
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = lamina("ask", "--model", tmp_path / "model", "--text", TEXTS["fr"], MILL, "When was it built?")
    assert done.code == 0
    lines = [line for line in done.err.splitlines() if "looks like" in line]
    assert len(lines) == 1 and lines[0].startswith("lamina: warning: text 1 (")


def test_training_records_the_language_of_its_texts(tmp_path: Path) -> None:
    settings = ("data.questions=20", "data.dev=none", "encoder.model=tiny", "encoder.pretrained=false", "train.epochs=0")
    done = lamina("train", "quickstart", "--out", tmp_path / "run", *(part for one in settings for part in ("--set", one)))
    assert done.code == 0, done.err
    assert Run(tmp_path / "run").read_info()["language"] == "en"
    model = library.load(tmp_path / "run")
    assert asked(model, MILL, ENGLISH["plain"]) == []
    assert "looks like German" in asked(model, MILL, TEXTS["de"])[0]
