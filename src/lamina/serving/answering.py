"""The routes that run a model: answers, classes, similarities, vectors, and why an answer was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import to_json

from lamina.errors import LaminaError
from lamina.reader.documents import Document
from lamina.serving.service import Noted, Shared, State
from lamina.serving.work import (
    MOST_ANSWERS,
    ClassifyLane,
    EmbedLane,
    SimilarLane,
    SpanLane,
    WhyLane,
    question_items,
    replies_of,
    text_costs,
)

if TYPE_CHECKING:
    from lamina.answers.across_contexts import Quote
    from lamina.reader.replies import Reply
    from lamina.serving.models import Served

routes = APIRouter()

_PER_ITEM: Final = 200  # characters whose work takes as long as that of an item

MILL = "The old mill at Dunmore was built in 1712 by Ada Thorn. 🌊 Its wheel has 24 paddles."


def _check_characters(value: object) -> None:
    """Raise ValueError if a text in a body holds half of a letter (a lone surrogate), which UTF-8 cannot encode."""
    match value:
        case str():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"character {error.start} of a text is not UTF-8") from None
        case list() | tuple():
            for item in value:
                _check_characters(item)
        case dict():
            for item in value.values():
                _check_characters(item)


class Body(BaseModel):
    """The base of all bodies."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _characters(cls, values: Any) -> Any:
        try:
            _check_characters(values)
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        return values


ModelName = Annotated[str | None, Field(description="A name of `/models`. Without it: the first model that fits.")]
Task = Annotated[str | None, Field(description="The task of the model, if several fit.")]
TopK = Annotated[int, Field(ge=1, le=MOST_ANSWERS, description="Number of answers, with the runners-up.")]
Threshold = Annotated[
    float | None, Field(description="Replaces the model's threshold for no answer. A greater one answers more often.")
]
Names = Annotated[list[str] | None, Field(description="A name for each context.")]
Texts = Annotated[list[str], Field(min_length=1)]


class Ask(Body):
    """One question, and one text or several."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"question": "Who built the mill?", "context": MILL},
                {"question": "How tall is the mill?", "context": [MILL, "The bridge has nine arches."], "top_k": 3},
            ]
        }
    )

    question: str
    context: str | Texts
    names: Names = None
    top_k: TopK = 1
    threshold: Threshold = None
    model: ModelName = None


class AskMany(Body):
    """Many questions, each answered from all texts."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"questions": ["Who built the mill?", "When was it built?"], "contexts": [MILL]}]}
    )

    questions: Texts
    contexts: Texts
    names: Names = None
    top_k: TopK = 1
    threshold: Threshold = None
    model: ModelName = None


class Classify(Body):
    """Texts, or pairs of texts, to classify."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"texts": ["What a wonderful day!", "I want my money back."]}]})

    texts: Annotated[list[str] | list[tuple[str, str]], Field(min_length=1)]
    task: Task = None
    model: ModelName = None


class Similar(Body):
    """Two lists of texts, compared one by one."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"first": ["The heron sleeps."], "second": ["A heron is asleep."]}]}
    )

    first: Texts
    second: Texts
    task: Task = None
    model: ModelName = None


class Embed(Body):
    """Texts to turn into vectors of length 1."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"texts": ["The heron sleeps in the old mill."]}]})

    texts: Texts
    task: Task = None
    model: ModelName = None


class Explain(Body):
    """A question with one text. `start` says which part of a long text is shown."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"question": "Who built the mill?", "context": MILL}]})

    question: str
    context: str
    model: ModelName = None


class Out(BaseModel):
    """The base of all replies."""


class Place(Out):
    """A span of characters: Unicode code points of the context, counted from 0. `end` is after the last."""

    start: int
    end: int
    text: str


class QuoteOut(Out):
    """A quoted answer with its place."""

    answer: str
    confidence: float
    context: Annotated[int, Field(description="The number of the context, from 0.")]
    name: str
    place: Annotated[str, Field(description="The line of the quote in its context.")]
    start: Annotated[int, Field(description="Code points before the quote.")]
    end: int
    sentence: Place


class ReplyOut(Out):
    """The reply to one question. `answer` is null if the texts do not answer it."""

    question: str
    answer: str | None
    confidence: float
    no_answer: Annotated[float, Field(description="The probability that the texts do not hold an answer.")]
    quote: QuoteOut | None
    others: list[QuoteOut]
    model: str


class RepliesOut(Out):
    """A reply to each question."""

    replies: list[ReplyOut]


class LabelOut(Out):
    """A class with the probability of each."""

    label: str
    confidence: float
    chances: dict[str, float]


class LabelsOut(Out):
    """A class for each text."""

    labels: list[LabelOut]
    model: str


class ScoresOut(Out):
    """A score for each pair."""

    scores: list[float]
    model: str


class VectorsOut(Out):
    """A vector for each text."""

    vectors: list[list[float]]
    model: str


@routes.post("/answer", response_model=ReplyOut)
async def answer(body: Ask, state: Shared, noted: Noted) -> Response:
    """Answer one question from one text or several."""
    texts = [body.context] if isinstance(body.context, str) else body.context
    many = AskMany.model_construct(**dict(body) | {"questions": [body.question], "contexts": texts})
    return await _answer(many, state, noted, lambda replies: replies[0])


@routes.post("/answer/batch", response_model=RepliesOut)
async def answer_batch(body: AskMany, state: Shared, noted: Noted) -> Response:
    """Answer many questions, each from all texts."""
    return await _answer(body, state, noted, lambda replies: RepliesOut(replies=replies))


async def _answer(
    body: AskMany, state: State, noted: dict[str, object], shaped: Callable[[list[ReplyOut]], BaseModel]
) -> Response:
    """Return the replies in a shape, as JSON."""
    state.check_questions("question", body.questions)
    state.check_items(len(body.questions) * len(body.contexts))
    state.check_texts(body.contexts)
    names = body.names or [f"text {number}" for number in range(1, len(body.contexts) + 1)]
    if len(names) != len(body.contexts):
        raise LaminaError(f"names: {len(names)} names for {len(body.contexts)} contexts. Fix: give a name for each")
    served = state.models.get(body.model, kind="spans")
    noted |= {"model": served.name, "questions": len(body.questions), "characters": sum(map(len, body.contexts))}
    if state.settings.log_texts:
        noted |= {"asked": body.questions, "texts": body.contexts}
    size = len(body.questions) * sum(len(text) + _PER_ITEM for text in body.contexts)
    items, costs = await state.apart(size, partial(question_items, served.reader, body.questions, body.contexts))
    predictions = await state.compute(SpanLane(served.reader), items, costs)

    def written() -> str:
        replies = replies_of(
            served.reader, body.questions, len(body.contexts), predictions, threshold=body.threshold, top_k=body.top_k
        )
        documents = [Document(name, text) for name, text in zip(names, body.contexts, strict=True)]
        return shaped([_reply_out(reply, documents, served) for reply in replies]).model_dump_json()

    return _json(await state.apart(size, written))


def _json(content: str | bytes) -> Response:
    return Response(content, media_type="application/json")


def _reply_out(reply: Reply, documents: Sequence[Document], served: Served) -> ReplyOut:
    return ReplyOut(
        question=reply.question,
        answer=reply.text,
        confidence=reply.confidence,
        no_answer=reply.no_answer,
        quote=None if reply.answer is None else _quote_out(reply.answer, documents),
        others=[_quote_out(quote, documents) for quote in reply.others],
        model=served.name,
    )


def _quote_out(quote: Quote, documents: Sequence[Document]) -> QuoteOut:
    document = documents[quote.context]
    first, last = document.sentence(quote.start, quote.end)
    return QuoteOut(
        answer=quote.text,
        confidence=quote.confidence,
        context=quote.context,
        name=document.name,
        place=document.place(quote.start),
        start=quote.start,
        end=quote.end,
        sentence=Place(start=first, end=last, text=document.text[first:last]),
    )


@routes.post("/classify")
async def classify(body: Classify, state: Shared, noted: Noted) -> LabelsOut:
    """Classify texts, or pairs of texts."""
    flat = [part for text in body.texts for part in ([text] if isinstance(text, str) else text)]
    served = _sentence_model(state, noted, body.model, flat)
    lane = ClassifyLane(served.reader, body.task, pairs=not isinstance(body.texts[0], str))
    labels = await state.compute(lane, body.texts, text_costs(body.texts))
    return LabelsOut(
        labels=[LabelOut(label=one.label, confidence=one.confidence, chances=one.chances) for one in labels], model=served.name
    )


@routes.post("/similar")
async def similar(body: Similar, state: Shared, noted: Noted) -> ScoresOut:
    """Compare texts, the first of one list with the first of the other, and so on."""
    if len(body.first) != len(body.second):
        what = f"first has {len(body.first)} texts, second {len(body.second)}"
        raise LaminaError(f"similar: {what}. Fix: give two lists of the same length")
    served = _sentence_model(state, noted, body.model, [*body.first, *body.second])
    pairs = list(zip(body.first, body.second, strict=True))
    scores: list[float] = await state.compute(SimilarLane(served.reader, body.task), pairs, text_costs(pairs))
    return ScoresOut(scores=scores, model=served.name)


@routes.post("/embed", response_model=VectorsOut)
async def embed(body: Embed, state: Shared, noted: Noted) -> Response:
    """Return a vector of length 1 for each text."""
    served = _sentence_model(state, noted, body.model, body.texts)
    vectors: list[list[float]] = await state.compute(EmbedLane(served.reader, body.task), body.texts, text_costs(body.texts))
    written = VectorsOut.model_construct(vectors=vectors, model=served.name).model_dump_json
    return _json(await state.apart(sum(map(len, vectors)), written))


def _sentence_model(state: State, noted: dict[str, object], name: str | None, texts: Sequence[str]) -> Served:
    """Return the model for sentences, after a check of the texts."""
    from lamina.reader.trained import check_text

    state.check_questions("text", texts)
    state.check_items(len(texts))
    for number, text in enumerate(texts, 1):
        check_text(f"text {number}", text)
        if not text.strip():
            raise LaminaError(f"text {number}: is empty. Fix: leave it out")
    served = state.models.get(name, kind="sentences")
    noted |= {"model": served.name, "items": len(texts)} | ({"texts": texts} if state.settings.log_texts else {})
    return served


@routes.post("/why", response_model=dict[str, Any])
async def why(body: Explain, state: Shared, noted: Noted) -> Response:
    """Return the start and end probability of each token, and the weights of the layers if the model has any."""
    state.check_questions("question", [body.question])
    state.check_texts([body.context])
    served = state.models.get(body.model, kind="spans")
    noted |= {"model": served.name, "characters": len(body.context)}
    size = len(body.context)
    items, costs = await state.apart(size, partial(question_items, served.reader, [body.question], [body.context]))
    (found,) = await state.compute(WhyLane(served.reader), items, costs)
    return _json(await state.apart(size, partial(to_json, found)))
