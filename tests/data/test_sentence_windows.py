from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors

from lamina.data.batches import make_batch
from lamina.data.examples import Sentence
from lamina.data.labels import Labels
from lamina.data.sentence_windows import make_sentence_windows
from lamina.data.tokenizer import Layout, Tokenizer
from lamina.data.windows import Windows
from lamina.errors import LaminaError, LaminaWarning
from tests.tiny import tokenizer

YES_NO = Labels(("no", "yes"))


def family(name: str, folder: Path) -> Path:
    """Return a vocabulary of single letters with the special tokens of a family."""
    marks = ("<s>", "</s>") if name == "roberta" else ("[CLS]", "[SEP]")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet()) if name == "roberta" else [*"abcdefghijklmnopqrstuvwxyz.?", "▁"]
    vocabulary = {token: i for i, token in enumerate([marks[0], "<pad>", marks[1], "<unk>", *letters])}
    built = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    if name == "roberta":
        built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        built.post_processor = processors.RobertaProcessing((marks[1], 2), (marks[0], 0), add_prefix_space=False)
    else:  # ALBERT
        built.normalizer = normalizers.Lowercase()
        built.pre_tokenizer = pre_tokenizers.Metaspace()
        built.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", 0), ("[SEP]", 2)]
        )
    built.add_special_tokens([*marks, "<pad>", "<unk>"])
    path = folder / f"{name}.json"
    built.save(str(path))
    return path


@pytest.fixture(scope="module", params=["bert", "roberta", "albert"])
def ours(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    if request.param == "bert":
        return tokenizer()
    return Tokenizer(family(request.param, tmp_path_factory.mktemp("families")))


def raw(ours: Tokenizer, length: int) -> Any:
    library = tokenizers.Tokenizer.from_file(str(ours.path))
    library.no_padding()
    library.enable_truncation(length, strategy="longest_first")
    return library


def quiet(sentences: list[Sentence], ours: Tokenizer, *, length: int, sides: int, labels: Labels = YES_NO) -> Windows:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LaminaWarning)
        return make_sentence_windows(sentences, ours, labels, length=length, sides=sides)


def check_equal(found: Windows, encodings: list[Any]) -> None:
    assert len(found) == len(encodings)
    for window, expected in enumerate(encodings):
        here = slice(*found.starts[[window, window + 1]])
        inside = [kind is not None for kind in expected.sequence_ids]
        assert found.ids[here].tolist() == expected.ids
        assert found.type_ids[here].tolist() == expected.type_ids
        assert found.context[here].tolist() == found.max_context[here].tolist() == inside
        assert list(map(tuple, found.offsets[here].tolist())) == [
            spot if mine else (0, 0) for spot, mine in zip(expected.offsets, inside, strict=True)
        ]


TEXTS = st.text("abc xyz.?", min_size=1, max_size=30).map(lambda text: f"a{text.strip()}")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6), length=st.integers(6, 40))
def test_windows_equal_those_of_the_tokenizers_package(ours: Tokenizer, pairs: list[tuple[str, str]], length: int) -> None:
    library = raw(ours, length)
    rows = [Sentence(str(i), first, second) for i, (first, second) in enumerate(pairs)]
    check_equal(quiet(rows, ours, length=length, sides=1), [library.encode(*pair) for pair in pairs])
    check_equal(quiet(rows, ours, length=length, sides=2), [library.encode(text) for pair in pairs for text in pair])
    singles = [Sentence(row.id, row.first) for row in rows]
    check_equal(quiet(singles, ours, length=length, sides=1), [library.encode(row.first) for row in rows])


def test_single_layouts(ours: Tokenizer) -> None:
    first, last = ours.layout.before, ours.layout.after
    assert ours.single == Layout(first, (), last, (0, 0, 0, 0, 0))


PAIRS = [
    Sentence("a", "the owl flies", "an owl is flying", "yes"),
    Sentence("b", "it rains", "the mouse eats cheese at night", "no"),
    Sentence("c", "who knows", "nobody does"),
]


def test_items_labels_and_batches_of_pairs_encoded_separately() -> None:
    windows = make_sentence_windows(PAIRS, tokenizer(), YES_NO, length=16, sides=2)
    assert (len(windows), windows.items, windows.sides) == (6, 3, 2)
    assert windows.example.tolist() == [0, 0, 1, 1, 2, 2]
    assert windows.labels is not None
    assert windows.labels.dtype == np.float32
    np.testing.assert_array_equal(windows.labels, [1, 0, np.nan])
    assert windows.gold.tolist() == [[0, 0]] * 6
    batch = make_batch(windows, windows.windows_of([1, 0]))
    assert batch.ids.shape == (4, 8)
    assert batch.labels is not None
    assert batch.labels.tolist() == [0, 1]
    assert batch.sides == 2


def test_scores_are_labels() -> None:
    windows = make_sentence_windows([Sentence("a", "x", "y", "3.8")], tokenizer(), Labels(high=5), length=16, sides=1)
    assert windows.labels is not None
    assert windows.labels.tolist() == pytest.approx([3.8])


@pytest.mark.parametrize(("sides", "count"), [(1, "2 of 3 pairs"), (2, "1 of 6 texts")])
def test_long_texts_are_cut_with_one_warning(sides: int, count: str) -> None:
    with pytest.warns(LaminaWarning, match=rf"{count} are longer than window\.length = 7 and are cut") as caught:
        windows = make_sentence_windows(PAIRS, tokenizer(), YES_NO, length=7, sides=sides)
    assert len(caught) == 1
    assert windows.lengths.max() == 7


def test_an_error_names_the_sentence() -> None:
    with pytest.raises(LaminaError, match=r"sentence b: has no second text.*data\.columns\.second"):
        make_sentence_windows([PAIRS[0], Sentence("b", "x")], tokenizer(), YES_NO, length=16, sides=2)
    with pytest.raises(LaminaError, match="sentence b: has no second text"):
        make_sentence_windows([PAIRS[0], Sentence("b", "x")], tokenizer(), YES_NO, length=16, sides=1)
    with pytest.raises(LaminaError, match=r"sentence z: the label 'maybe' is not in data\.classes\. Fix: .* one of no, yes"):
        make_sentence_windows([Sentence("z", "x", None, "maybe")], tokenizer(), YES_NO, length=16, sides=1)
    with pytest.raises(LaminaError, match=r"window\.length: 4 is too short, 3 of them are special tokens"):
        make_sentence_windows(PAIRS, tokenizer(), YES_NO, length=4, sides=1)


def test_different_windows_have_different_fingerprints() -> None:
    def of(rows: list[Sentence], labels: Labels = YES_NO, length: int = 16, sides: int = 1) -> str:
        return make_sentence_windows(rows, tokenizer(), labels, length=length, sides=sides).fingerprint

    others = [
        of(PAIRS[:2]),
        of(PAIRS[::-1]),
        of([PAIRS[0], PAIRS[1], Sentence("c", "who knows", "nobody does", "no")]),
        of([PAIRS[0], PAIRS[1], Sentence("c", "who knows nobody", "does")]),
        of(PAIRS, Labels(("yes", "no"))),
        of(PAIRS, length=17),
        of(PAIRS, sides=2),
    ]
    assert of(PAIRS) == of(list(PAIRS))
    assert len({of(PAIRS), *others}) == len(others) + 1
