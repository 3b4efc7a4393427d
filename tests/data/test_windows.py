from __future__ import annotations

import time
import unicodedata
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from lamina.answers.decode import quote
from lamina.data.examples import Answer, Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import LOST, Cutting, WindowOptions, Windows, cut_examples, make_windows
from lamina.errors import LaminaError, LaminaWarning
from tests.tiny import corpus, example, tokenizer, windows

# A reference that cuts examples one by one, token by token.


@dataclass(frozen=True)
class Reference:
    ids: list[int]
    type_ids: list[int]
    context: list[bool]
    offsets: list[tuple[int, int]]
    max_context: list[bool]
    gold: tuple[int, int]


def raw_tokenizer() -> Any:
    raw = tokenizers.Tokenizer.from_file(str(tokenizer().path))
    raw.no_truncation()
    raw.no_padding()
    return raw


RAW = raw_tokenizer()


def slow_windows(example: Example, options: WindowOptions) -> list[Reference]:
    query = RAW.encode(example.question.lstrip(), add_special_tokens=False).ids[: options.query]
    context = RAW.encode(example.context, add_special_tokens=False)
    room = options.length - len(query) - 3
    stride = min(room, options.step or 128) if options.overlap is None else room - options.overlap
    spans = []
    first = 0
    while True:
        spans.append((first, min(first + room, len(context.ids))))
        if spans[-1][1] == len(context.ids):
            break
        first += stride
    answer = slow_answer(example, context.offsets)
    return [slow_window(number, spans, query, context, answer) for number in range(len(spans))]


def slow_answer(example: Example, offsets: list[tuple[int, int]]) -> list[int] | None:
    """Return the tokens of the answer: from the first that ends after its start to the last that starts before its end."""
    if not example.answers:
        return None
    start = example.answers[0].start
    end = start + len(example.answers[0].text)
    after = [i for i, (_, stop) in enumerate(offsets) if stop > start]
    before = [i for i, (begin, _) in enumerate(offsets) if begin < end]
    return list(range(after[0], before[-1] + 1)) if after and before else []


def slow_window(
    number: int, spans: list[tuple[int, int]], query: list[int], context: Any, answer: list[int] | None
) -> Reference:
    first, stop = spans[number]
    before = 2 + len(query)
    gold = (0, 0)
    if answer == []:
        gold = (LOST, LOST)
    elif answer and first <= answer[0] and answer[-1] < stop:
        gold = (before + answer[0] - first, before + answer[-1] - first)
    inside = range(first, stop)
    return Reference(
        ids=[101, *query, 102, *(context.ids[i] for i in inside), 102],
        type_ids=[0] * before + [1] * (len(inside) + 1),
        context=[False] * before + [True] * len(inside) + [False],
        offsets=[(0, 0)] * before + [context.offsets[i] for i in inside] + [(0, 0)],
        max_context=[False] * before + [roomiest(spans, i) == number for i in inside] + [False],
        gold=gold,
    )


def roomiest(spans: list[tuple[int, int]], token: int) -> int:
    """Return the window with the most context around the token; the earlier of two equals."""
    best, best_score = -1, float("-inf")
    for number, (first, stop) in enumerate(spans):
        if first <= token < stop:
            score = min(token - first, stop - 1 - token) + 0.01 * (stop - first)
            if score > best_score:
                best, best_score = number, score
    return best


def assert_equal(found: Windows, examples: list[Example], options: WindowOptions) -> None:
    expected = [(i, window) for i, one in enumerate(examples) for window in slow_windows(one, options)]
    assert found.example.tolist() == [i for i, _ in expected]
    assert found.starts.tolist() == np.cumsum([0, *(len(window.ids) for _, window in expected)]).tolist()
    assert found.gold.tolist() == [list(window.gold) for _, window in expected]
    for name in ("ids", "type_ids", "context", "max_context"):
        values = [value for _, window in expected for value in getattr(window, name)]
        assert getattr(found, name).tolist() == values, name
    assert found.offsets.tolist() == [list(pair) for _, window in expected for pair in window.offsets]
    assert found.lengths.max() <= options.length


WORDS = ("mouse", "unbelievable", "1984", "U.S.", "cafe\u0301", "é", "\u200b", "(so)", "한국", "👍🏽", "x" * 120, "\r\n")


@st.composite
def window_options(draw: st.DrawFn) -> WindowOptions:
    query = draw(st.integers(1, 8))
    length = draw(st.integers(max(16, query + 5), 40))
    room = length - query - 4
    step = draw(st.none() | st.integers(1, room))
    overlap = draw(st.none() | st.integers(0, room - 1)) if step is None else None
    return WindowOptions(length=length, query=query, step=step, overlap=overlap)


@st.composite
def some_examples(draw: st.DrawFn) -> list[Example]:
    text = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
    contexts = draw(st.lists(text, min_size=1, max_size=2))
    examples = []
    for number in range(draw(st.integers(1, 3))):
        context = draw(st.sampled_from(contexts))
        answers: tuple[Answer, ...] = ()
        if context and draw(st.booleans()):
            start = draw(st.integers(0, len(context) - 1))
            end = draw(st.integers(start + 1, len(context)))
            answers = (Answer(context[start:end], start),)
        question = " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=12)))
        examples.append(Example(f"q{number}", question, context, answers, f"q{number}", "a"))
    return examples


@settings(deadline=None, max_examples=120)
@given(some_examples(), window_options())
def test_windows_equal_the_slow_reference(examples: list[Example], options: WindowOptions) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LaminaWarning)  # some of these texts have only rare characters
        assert_equal(make_windows(examples, tokenizer(), options), examples, options)


@pytest.mark.filterwarnings("ignore::lamina.LaminaWarning")
@given(some_examples(), window_options(), st.integers(1, 200))
def test_pieces_are_the_windows_in_order(examples: list[Example], options: WindowOptions, tokens: int) -> None:
    whole = make_windows(examples, tokenizer(), options)
    pieces = list(cut_examples(examples, tokenizer(), options).pieces(tokens))
    assert sum(map(len, pieces)) == len(whole)
    assert all(len(piece) == 1 or len(piece.ids) <= tokens for piece in pieces)
    if pieces:
        for field in ("ids", "type_ids", "context", "offsets", "max_context", "example", "lengths"):
            together = np.concatenate([getattr(piece, field) for piece in pieces])
            np.testing.assert_array_equal(together, getattr(whole, field), field)


def test_question_that_leaves_no_room_is_named() -> None:
    options = WindowOptions(length=16, overlap=4, query=None)
    with pytest.raises(LaminaError, match=r"question 2: has 12 tokens, which leaves no room"):
        Cutting(["who?", "who " * 12], ["x y"] * 2, tokenizer(), options)
    with pytest.raises(LaminaError, match=r"question 1: has 10 tokens, which leaves no room"):
        Cutting(["who " * 10], ["a b c d"], tokenizer(), options)  # three tokens fit, but four must overlap
    for question, text in (("who " * 12, "x"), ("who " * 10, "a b c"), ("who " * 13, "")):
        assert len(Cutting([question], [text], tokenizer(), options)) == 1  # it fits uncut


def test_default_options_on_texts_of_usual_length() -> None:
    options = WindowOptions()
    long = example("The grey mouse ran over the bridge to the mill. " * 60, "mill", question="Where to? " * 40)
    examples = [*corpus(2), long, replace(long, answers=(Answer("mill", long.context.rindex("mill")),))]
    made = windows(examples, options)
    assert_equal(made, examples, options)
    own = made.example == len(examples) - 1
    assert own.sum() > 2
    assert (made.gold[own][:-1] == 0).all(), "a window without the answer is a null window"
    assert made.gold[own][-1, 0] > 0
    assert made.lengths.max() == options.length


def test_query_is_cut_to_its_limit() -> None:
    made = windows([example("It is a mouse.", question="why " * 100)], WindowOptions())
    assert (made.ids == RAW.token_to_id("why")).sum() == 64


def test_windows_overlap_as_in_transformers() -> None:
    import transformers

    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tokenizer().path))
    context = " ".join(one.context for one in corpus(4))
    for overlap, length in ((0, 40), (5, 40), (16, 64), (20, 33)):
        encoded = theirs(
            "Where does the otter live?",
            context,
            truncation="only_second",
            max_length=length,
            stride=overlap,
            padding=False,
            return_overflowing_tokens=True,
        )
        made = windows(
            [example(context, question="Where does the otter live?")],
            WindowOptions(length=length, overlap=overlap, query=8),
        )
        assert len(made) > 3
        assert [made.ids[a:b].tolist() for a, b in pairwise(made.starts)] == encoded["input_ids"]


# ---- answer -> tokens -> answer


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


ROUND_TRIPS = {
    "at the very start": ("Paris is the capital.", "Paris"),
    "at the very end": ("The capital is Paris", "Paris"),
    "all of it": ("Paris", "Paris"),
    "with its full stop": ("He lives in the U.S.", "the U.S."),
    "inside a hyphen": ("A well-known town", "known"),
    "money": ("It cost $1,500.50 then.", "$1,500.50"),
    "decomposed accent at the end": ("Visit the cafe\u0301 today", "cafe\u0301"),
    "decomposed accent inside": ("The re\u0301sume\u0301 of it", "re\u0301sume\u0301"),
    "composed accent": ("Visit the café today", "café"),
    "two marks": ("Il dit a\u0323\u0302 oui", "a\u0323\u0302"),
    "emoji": ("He sent 👍🏽 and left", "👍🏽"),
    "emoji of four joined": ("It shows 👩‍👩‍👧‍👦 there", "👩‍👩‍👧‍👦"),
    "emoji in an answer": ("He said no 🙈 thanks to us", "no 🙈 thanks"),
    "flag": ("The 🇫🇷 flag", "🇫🇷"),
    "windows line ends": ("First line\r\nsecond line\r\nthird", "second line"),
    "across a line end": ("First line\r\nsecond line", "line\r\nsecond"),
    "no-break spaces": ("about 12\xa0000\xa0km away", "12\xa0000\xa0km"),
    "beside a zero-width space": ("one \u200btwo\u200b three", "two"),
    "capital with a dot": ("In İzmir it rains", "İzmir"),
    "ligature": ("The ﬁrst ofﬁce", "ﬁrst"),
    "Korean": ("수도는 서울 이다", "서울"),
    "Korean, a part of a word": ("서울은 도시 이다", "서울"),
    "Korean, decomposed": (nfd("수도는 서울 이다"), nfd("서울")),
    "Korean, decomposed part of a word": (nfd("서울은 도시 이다"), nfd("서울")),
    "Chinese": ("北京是首都", "北京"),
}


@pytest.mark.filterwarnings("ignore::lamina.errors.LaminaWarning")
@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_answer_is_equal_after_tokenising(case: str) -> None:
    context, answer = ROUND_TRIPS[case]
    made = windows([example(context, answer)])
    first, last = made.gold[0]
    assert made.context[[first, last]].all()
    start, end = quote(context, int(made.offsets[first, 0]), int(made.offsets[last, 1]))
    assert context[start:end] == answer


def test_context_of_twenty_thousand_words_is_fast() -> None:
    context = "The grey mouse ran over the bridge . " * 2500 + "It found the mill ."
    began = time.process_time()
    made = windows([example(context, "the mill")], WindowOptions())
    assert time.process_time() - began < 3
    assert len(made) > 150
    with_answer = np.flatnonzero(made.gold[:, 0])
    assert len(with_answer) >= 1
    for window in with_answer:
        first, last = made.starts[window] + made.gold[window]
        assert context[made.offsets[first, 0] : made.offsets[last, 1]] == "the mill"


def test_answer_without_a_token_is_lost() -> None:
    lost = example("a mouse \u200b ran", "\u200b")
    kept = example("a mouse \u200b ran", "mouse")
    assert windows([lost, kept, example("a mouse")]).gold.tolist() == [[LOST, LOST], [7, 7], [0, 0]]


@pytest.mark.parametrize("context", ["", "  \n"])
def test_context_without_tokens_has_one_window(context: str) -> None:
    made = windows([example(context), example("a mouse")])
    assert made.example.tolist() == [0, 1]
    assert not made.context[: made.starts[1]].any()


def test_no_examples_give_no_windows() -> None:
    made = windows([])
    assert len(made) == 0
    assert made.gold.shape == (0, 2)
    assert made.starts.tolist() == [0]


def test_a_shared_context_gives_the_same_windows_as_a_copy() -> None:
    examples = corpus(2)
    together = windows(examples)
    token, row = 0, 0
    for one in examples:
        alone = windows([one])
        tokens, rows = slice(token, token + len(alone.ids)), slice(row, row + len(alone))
        for name in ("ids", "type_ids", "context", "offsets", "max_context"):
            assert np.array_equal(getattr(together, name)[tokens], getattr(alone, name)), name
        assert np.array_equal(together.gold[rows], alone.gold)
        token, row = tokens.stop, rows.stop
    assert (token, row) == (len(together.ids), len(together))


# ---- options


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"step": 10, "overlap": 10}, "give one of them"),
        ({"length": 16, "query": 13}, "leaves -1 tokens"),
        ({"length": 64, "query": 16, "step": 45}, "leaves 44 tokens.*step = 45"),
        ({"length": 64, "query": 16, "overlap": 44}, "leaves 44 tokens.*overlap = 44"),
        ({"length": 3}, "greater than or equal to 4"),
        ({"length": 15}, "leaves -53 tokens"),
        ({"step": 0}, "greater than or equal to 1"),
        ({"stride": 5}, "not permitted"),
    ],
)
def test_impossible_options(given_options: dict[str, int], message: str) -> None:
    with pytest.raises((ValueError, LaminaError), match=message):
        WindowOptions(**given_options).check()


# ---- the warning


@pytest.mark.parametrize(
    "text",
    [
        "서울은 대한민국의 수도이자 최대 도시이다.",
        nfd("서울은 대한민국의 수도이자 최대 도시이다."),
        "北京是中华人民共和国的首都，位于华北平原。",
        "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย",
        "東京は日本の首都である。",
        "Москва является столицей России.",
    ],
)
def test_a_text_outside_the_vocabulary_is_warned_about(text: str) -> None:
    with pytest.warns(LaminaWarning, match="1 of 2 texts") as caught:
        windows([example(text), example("The mouse ran.")])
    assert text[:20] in str(caught[0].message)
    assert "\n" not in str(caught[0].message)


@pytest.mark.parametrize(
    "text",
    [
        "1, 2, 3; 4.5 (6) [7] {8} 9:0 $1 ! ? a-b, x/y",
        "f(x) = a x + b y + c z; x, y, z > 0",
        "He met Kim (김) in 1999, and Li (李) in 2001.",
        "Äpfel, Öl, naïve café; São Paulo, Łódź",
        "",
    ],
)
def test_no_warning_for_latin_letters_digits_and_signs(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", LaminaWarning)
        windows([example(text)])


def test_no_warning_where_the_vocabulary_is_of_that_language(tmp_path: Path) -> None:
    """Half of the tokens of a Korean text are single syllables, also with a Korean vocabulary."""
    syllables = [chr(0xAC00 + 11 * i) for i in range(1000)]
    words = [a + b for a, b in zip(syllables, reversed(syllables), strict=True)]
    raw = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=False)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    raw.train_from_iterator(
        [" ".join(words)], trainers.WordPieceTrainer(vocab_size=2500, special_tokens=special, show_progress=False)
    )
    raw.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    raw.save(str(tmp_path / "tokenizer.json"))
    korean = Tokenizer(tmp_path / "tokenizer.json")
    text = " ".join(syllables[:40])
    with warnings.catch_warnings():
        warnings.simplefilter("error", LaminaWarning)
        make_windows([example(text)], korean, WindowOptions())
    with pytest.warns(LaminaWarning):
        make_windows([example("Москва")], korean, WindowOptions())


# ---- the fingerprint


def test_different_windows_have_different_fingerprints(tmp_path: Path) -> None:
    other_tokenizer = tmp_path / "tokenizer.json"
    other_tokenizer.write_bytes(tokenizer().path.read_bytes() + b"\n")
    base = [example("A mouse ran to a mouse.", "mouse"), example("It rained.", id="r")]
    first = base[0]
    variants = [
        base,
        base[::-1],
        base[:1],
        [replace(first, id="other"), base[1]],
        [replace(first, question="Who ran?"), base[1]],
        [replace(first, context="A mouse ran to a house."), base[1]],
        [replace(first, answers=(Answer("mouse", 17),)), base[1]],
        [replace(first, answers=(Answer("A mouse", 0),)), base[1]],
        [replace(first, answers=()), base[1]],
    ]
    prints = [windows(variant).fingerprint for variant in variants]
    prints += [windows(base, WindowOptions(length=length)).fingerprint for length in (383, 384)]
    prints.append(windows(base, WindowOptions(step=127)).fingerprint)
    prints.append(make_windows(base, Tokenizer(other_tokenizer), WindowOptions()).fingerprint)
    assert len(set(prints)) == len(prints)


def test_the_fingerprint_does_not_depend_on_object_identity() -> None:
    one, two = corpus(1)[:2]
    copy = replace(two, context="".join(list(two.context)))
    assert copy.context is not one.context
    assert windows([one, copy]).fingerprint == windows([one, two]).fingerprint
