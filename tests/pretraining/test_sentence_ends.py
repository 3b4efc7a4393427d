"""Sentences end at marks and lines, but not at abbreviations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.pretraining.sentence_ends import sentence_spans


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "expected",
    [
        ["Dr. Low met Mrs. A. Day in St. Ives.", "It rained."],
        ["He left the U.S. in May.", "She stayed in the U.S.", "They met again."],
        ["It has a length of 3.5 km.", "The other has 4."],
        ["Op. 65 and No. 3 are short.", "The answer is no.", "Nobody asked."],
        ['He wrote "No."', "Then he left!", "Did he?", "(He did.)", "Yes."],
        ["Yahoo! was large, e.g. in Japan.", "Then it fell."],
        ["A lobster , H. gammarus , is blue .", "It may grow to 60 cm ."],
        ["it rains.", "it snows."],
    ],
)
def test_sentences_of_a_text(expected: list[str]) -> None:
    assert sentences(" ".join(expected)) == expected


def test_a_line_ends_a_sentence() -> None:
    assert sentences("= Title =\n\n It is blue \nand red.") == ["= Title =", "It is blue", "and red."]


@given(st.text(alphabet="ab. \nA!?\"')", max_size=60))
def test_spans_are_in_order_and_leave_out_only_spaces(text: str) -> None:
    spans = sentence_spans(text)
    kept = [position for start, end in spans for position in range(start, end)]
    assert kept == sorted(set(kept))
    assert all(text[position].isspace() for position in set(range(len(text))) - set(kept))
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
