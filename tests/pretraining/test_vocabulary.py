"""New vocabularies: Hangul stays whole, equal texts give equal files, and too small a size raises."""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from lamina.data.tokenizer import Tokenizer
from lamina.errors import LaminaError
from lamina.pretraining.vocabulary import SPECIALS, VocabularyOptions, train_vocabulary

KOREAN = [
    "비행기가 이륙하고 있다.",
    "한 남자가 큰 플루트를 연주하고 있다.",
    "남자가 비행기를 보고 있다.",
    "여자가 고양이와 놀고 있다.",
    "고양이가 큰 나무 위에 있다.",
]


def made(folder: Path, texts: list[str], **options: object) -> Tokenizer:
    path = folder / "tokenizer.json"
    path.write_text(train_vocabulary(texts, VocabularyOptions.model_validate(options)), encoding="utf-8")
    return Tokenizer(path)


def decoded(tokenizer: Tokenizer, text: str) -> str:
    pieces = [tokenizer.token_of(int(number)) for number in tokenizer.encode([text]).ids]
    return " ".join(pieces).replace(" ##", "")


def test_korean_is_unchanged_after_decoding(tmp_path: Path) -> None:
    tokenizer = made(tmp_path, KOREAN, size=400)
    for text in KOREAN:
        assert decoded(tokenizer, text).replace(" ", "") == text.replace(" ", "")
        decomposed = unicodedata.normalize("NFD", text)
        assert tokenizer.encode([decomposed]).ids.tolist() == tokenizer.encode([text]).ids.tolist()
    assert tokenizer.id_of("있다") is not None, "a frequent word is one entry"


def test_stripping_accents_splits_hangul(tmp_path: Path) -> None:
    """Show why accents are kept by default."""
    assert "비" not in decoded(made(tmp_path, KOREAN, size=400, keep_accents=False), "비행기가")


def test_case_and_accents(tmp_path: Path) -> None:
    texts = ["Größe Maß größe Résumé RÉSUMÉ résumé"] * 3
    assert decoded(made(tmp_path, texts, size=200), "RÉSUMÉ") == "résumé"
    assert decoded(made(tmp_path, texts, size=200, keep_accents=False), "RÉSUMÉ") == "resume"
    assert decoded(made(tmp_path, texts, size=200, lowercase=False), "Résumé") == "Résumé"


def test_layout_is_that_of_bert(tmp_path: Path) -> None:
    tokenizer = made(tmp_path, KOREAN, size=300)
    assert [tokenizer.id_of(name) for name in SPECIALS] == [0, 1, 2, 3, 4]
    assert tokenizer.vocabulary <= 300
    assert tokenizer.layout.before == (2,)
    assert tokenizer.layout.between == tokenizer.layout.after == (3,)
    assert tokenizer.layout.types == (0, 0, 0, 1, 1)


def test_equal_texts_give_equal_vocabularies_in_every_process() -> None:
    code = (
        "import hashlib; from lamina.data.fables import make; from lamina.pretraining.texts import *; "
        "from lamina.pretraining.vocabulary import *; texts = read_texts([TextSource(source='fables/train')]); "
        "print(hashlib.sha256(train_vocabulary(texts, VocabularyOptions(size=600)).encode()).hexdigest())"
    )
    found = {subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout for _ in range(3)}
    assert len(found) == 1


def test_too_small_a_size_raises_with_the_size_that_fits(tmp_path: Path) -> None:
    with pytest.raises(
        LaminaError, match=r"vocabulary\.size: 60 is too small: \d+% of the words .*Fix: set it to (\d+),"
    ) as raised:
        made(tmp_path, KOREAN, size=60)
    enough = int(str(raised.value).split("set it to ")[1].split(",")[0])
    tokenizer = made(tmp_path, KOREAN, size=enough)
    assert tokenizer.unknown not in tokenizer.encode(KOREAN).ids
