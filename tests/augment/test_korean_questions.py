"""Synthetic unanswerable questions in Korean: another paragraph, never a rule for English."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.augment.synthetic import is_east_asian, letters_and_digits, source_id, stems
from lamina.augment.unanswerable import UnanswerableOptions, make_unanswerable, with_some_unanswerable
from lamina.config.parse import parse_recipe
from lamina.data.examples import Answer, Example
from lamina.data.splits import questions_of
from lamina.data.squad import read, to_squad
from lamina.errors import LaminaWarning
from lamina.tasks.kind import FileCache
from lamina.tasks.registry import kind_of
from lamina.utils.files import write_json
from tests import tiny

ENGLISH = UnanswerableOptions(share=0.5, kinds=("entity", "antonym", "number", "negation"))
PARAGRAPH = UnanswerableOptions(share=0.2, kinds=("paragraph",))


@pytest.mark.parametrize(
    ("question", "context", "answer"),
    [
        ("DNA가 이중가닥을 이루는 방법은?", "DNA가 그 방법은 수소 결합이다. RNA를 만든다. FIFA에서 왔다.", "수소 결합"),
        ("4 hot wave 발매후 첫주 판매량은?", "4 hot wave 음반은 약 20만장 팔렸다.", "약 20만장"),
        ("1994 아시안 게임에서 한국의 상대는?", "1994 아시안 게임에서 한국은 일본과 만났다.", "일본"),
        ("곡 넌 is 뭔들의 앨범 이름은?", "넌 is 뭔들은 Melting 앨범에 있다.", "Melting"),
    ],
)
def test_rules_for_english_do_not_change_korean_questions(question: str, context: str, answer: str) -> None:
    source = Example("q", question, context, (Answer(answer, context.index(answer)),), "q", "article")
    with pytest.warns(LaminaWarning, match="needs 1 synthetic questions but 0 could be made"):
        assert make_unanswerable([source], ENGLISH, 0) == []
    english = [one for one in tiny.corpus(4) if one.answers]
    assert make_unanswerable([source, *english], UnanswerableOptions(share=0.1), 0), "English questions are changed as before"


def test_stems_lack_particles_and_question_words() -> None:
    assert stems("흥선대원군이 서울에서") == stems("흥선대원군은 서울로") == ["흥선대원군", "서울"]
    assert stems("누가 서울을 세웠나? 그 사람은 누구인가요?") == ["서울", "세웠나"]
    assert stems("DNA가 RNA를") == ["dna", "rna"]
    assert is_east_asian("DNA가") and is_east_asian("日本") and not is_east_asian("Señor Łukasz, α")


def test_real_paragraphs_lack_the_answer(shared: Path) -> None:
    examples = read(shared / "data/korquad-v1.0-dev.json.xz")[:1200]
    sources = {example.id: example for example in examples}
    synthetic = make_unanswerable(examples, PARAGRAPH, 0)
    assert len(synthetic) == round(0.2 / 0.8 * 1200)
    own_article = 0
    for one in synthetic:
        source = sources[source_id(one.id)]
        assert one.question == source.question and one.context != source.context and not one.answers
        assert all(letters_and_digits(answer.text) not in letters_and_digits(one.context) for answer in source.answers)
        own_article += one.article == source.article
    assert own_article > 0.5 * len(synthetic)


def test_a_held_out_split_without_unanswerable_questions_gets_some(shared: Path, tmp_path: Path) -> None:
    """Check that a threshold for "no answer" can be fitted after training on KorQuAD."""
    examples = read(shared / "data/korquad-v1.0-dev.json.xz")[:600]
    write_json(tmp_path / "train.json", to_squad(examples))
    settings = {
        "data": {"train": str(tmp_path / "train.json"), "holdout": 0.3},
        "encoder": {"model": "tiny", "pretrained": False},
    }
    plain = parse_recipe(settings).main
    made = parse_recipe(settings | {"augment": {"unanswerable": {"share": 0.2, "kinds": ["paragraph"]}}}).main
    before, after = (kind_of(task).splits(task, 0, FileCache(), dev=False) for task in (plain, made))
    assert after.train == before.train, "training questions are added in each epoch"
    assert after.holdout[: len(before.holdout)] == before.holdout
    added = after.holdout[len(before.holdout) :]
    assert 20 <= len(added) <= round(len(before.holdout) * 0.2 / 0.8), "as many as a few articles give"
    assert not any(one.answers for one in added)
    articles = {example.article for example in before.holdout}
    assert all(one.article in articles for one in added), "no text of the training split"


def test_a_held_out_split_with_unanswerable_questions_is_unchanged() -> None:
    examples = tiny.corpus(4)
    assert with_some_unanswerable(examples, PARAGRAPH, 0) == examples
    answerable = [one for one in examples if one.answers]
    more = with_some_unanswerable(answerable, UnanswerableOptions(share=0.2, replace=True), 0)
    assert len(questions_of(more)) > len(questions_of(answerable)), "no held-out question is replaced"
