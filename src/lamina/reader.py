"""A trained model as an object that answers questions.

>>> import lamina
>>> reader = lamina.load("runs/quickstart")  # doctest: +SKIP
>>> reader.answer("Who built the mill?", "The mill was built by Ada Thorn.").text  # doctest: +SKIP
'Ada Thorn'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Any, cast, overload

import numpy as np
import torch

from lamina.answers.calibration import Calibration
from lamina.answers.decode import AnswerOptions, Prediction, decode_piece, merge
from lamina.answers.grouping import Gathering, Placed
from lamina.assemble import Trained, load_trained
from lamina.cache.part import Part
from lamina.data.examples import Example, Sentence
from lamina.data.sentence_windows import make_sentence_windows
from lamina.data.windows import Windows, cut_examples
from lamina.errors import LaminaError
from lamina.evaluation import score_both
from lamina.heads.sentence import SentenceHeadOptions
from lamina.inference import Floats, item_outputs, span_logits, text_vectors
from lamina.judging import SentenceJudge, how_scored
from lamina.labelling import class_chances, said_scores
from lamina.progress import Progress, Silent
from lamina.recipe import TaskOptions
from lamina.training.options import choose_device


@dataclass(frozen=True, slots=True)
class Quote:
    """A possible answer: ``contexts[context][start:end] == text`` for the contexts that were given."""

    text: str
    confidence: float  # the probability that this is the answer
    context: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one question: a span of the text, or None when the text does not hold one.

    ``contexts[context][start:end] == text`` for the contexts that were given. `confidence` is the probability of what
    is said here, be it a span or "no answer"; `no_answer` is the probability that the text does not hold the answer.
    `others` are the runners-up, as many as were asked for (with "no answer", all spans are).
    """

    question: str
    text: str | None
    confidence: float
    context: int = 0
    start: int | None = None
    end: int | None = None
    no_answer: float = 0.0
    others: tuple[Quote, ...] = ()


@dataclass(frozen=True, slots=True)
class Label:
    """The class of a text, or of a pair of them, with the probability of every class."""

    label: str
    confidence: float
    chances: dict[str, float]


Pair = tuple[str, str]
Text = str | Pair  # what can be classified


class Reader:
    """A trained model, its tokenizer, its threshold for "no answer" and what its scores mean as probabilities."""

    def __init__(self, trained: Trained) -> None:
        self.recipe, self.model, self.tokenizer = trained.recipe, trained.model, trained.tokenizer
        self._settled = trained.settled
        spans = [name for name, task in self.recipe.tasks.items() if task.objective.type == "span"]
        self._span = spans[0] if spans else None
        settled = trained.settled.get(self._span or "", {})
        self.threshold: float = settled.get("threshold", trained.threshold)
        self.question_threshold: float = settled.get("question_threshold", self.threshold)  # over several contexts
        self.calibration = Calibration(**settled["calibration"]) if "calibration" in settled else trained.calibration

    @overload  # a text is an iterable of texts to the type checker, and the first match counts
    def answer(  # type: ignore[overload-overlap]
        self, questions: str, context: str | Iterable[str], *, threshold: float | None = None, top_k: int = 1
    ) -> Reply: ...
    @overload
    def answer(
        self, questions: Iterable[str], context: str | Iterable[str], *, threshold: float | None = None, top_k: int = 1
    ) -> list[Reply]: ...
    def answer(
        self,
        questions: str | Iterable[str],
        context: str | Iterable[str],
        *,
        threshold: float | None = None,
        top_k: int = 1,
    ) -> Reply | list[Reply]:
        """Answers one question or many from one text or many; each question gets the best answer that any text holds.

        `threshold` replaces the model's own: a greater one says "no answer" less often. `top_k` asks for runners-up.
        """
        asked = [questions] if isinstance(questions, str) else list(questions)
        texts = [context] if isinstance(context, str) else list(context)
        replies = list(self.replies(asked, texts, threshold=threshold, top_k=top_k))
        return replies[0] if isinstance(questions, str) else replies

    def replies(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        *,
        threshold: float | None = None,
        top_k: int = 1,
        progress: Progress | None = None,
    ) -> Iterator[Reply]:
        """As `answer`, one reply after the other, as soon as it is known."""
        self._check_questions(questions, top_k)
        for number, text in enumerate(contexts, 1):
            _check_text(f"text {number}", text)
        if not any(text.strip() for text in contexts):
            raise LaminaError("there is no text to answer from: the context is empty")
        predictions = self._predictions(_pairs(questions, contexts), self._options(top_k), progress or Silent(), remember=True)
        own = self.question_threshold if len(contexts) > 1 else self.threshold
        limit = own if threshold is None else threshold

        def reply(question: str) -> Reply:
            gathering = self._gathering(top_k)
            for context, prediction in enumerate(islice(predictions, len(contexts))):
                gathering.add(context, prediction)
            return _reply(question, gathering, limit, top_k)

        return map(reply, questions)

    def read_on(self, questions: Sequence[str], top_k: int = 1) -> ReadingOn:
        """Answers questions from texts that are given bit by bit, and of which none is kept."""
        self._check_questions(questions, top_k)
        return ReadingOn(self, questions, top_k)

    def _check_questions(self, questions: Sequence[str], top_k: int) -> None:
        self.check_answers()
        for number, question in enumerate(questions, 1):
            if not question.strip():
                raise LaminaError(f"question {number} is empty")
            _check_text(f"question {number}", question)
        if top_k < 1:
            raise LaminaError(f"top_k = {top_k}: ask for at least one answer")

    def _options(self, top_k: int) -> AnswerOptions:
        return self.recipe.answer.model_copy(update={"n_best": max(top_k, self.recipe.answer.n_best)})

    def _gathering(self, top_k: int) -> Gathering:
        return Gathering(top_k, self.calibration, self.recipe.answer.across)

    def predict(self, examples: Sequence[Example], progress: Progress | None = None) -> list[Prediction]:
        """The n best answers to each example, with the score of "no answer"."""
        return list(self._predictions(examples, self.recipe.answer, progress or Silent()))

    def evaluate(self, examples: Sequence[Example], progress: Progress | None = None) -> dict[str, Any]:
        """The official SQuAD 2.0 scores at threshold 0, at the model's own, and the best that any threshold gives. Where
        questions have several contexts these count one by one, and `questions` has the scores over all of them."""
        predictions = self.predict(examples, progress)
        return score_both(predictions, examples, self.threshold, self.question_threshold, self.recipe.answer.across)

    def evaluate_sentences(
        self, sentences: Sequence[Sentence], *, task: str | None = None, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Accuracy and macro-F1 of classes, the correlations of scores."""
        name, options = self.sentence_task(task)
        part = Part(sentences, self._cut(sentences, options))
        return SentenceJudge(name, options).measure(self.model, part, self._settled_of(name), progress or Silent())[0]

    def predict_sentences(
        self, sentences: Sequence[Sentence], *, task: str | None = None, progress: Progress | None = None
    ) -> list[str] | list[float]:
        """The class of each, or its score. Labels are not looked at."""
        name, options = self.sentence_task(task)
        unlabelled = [replace(sentence, label=None) for sentence in sentences]
        part = Part(unlabelled, self._cut(unlabelled, options))
        return SentenceJudge(name, options).say(self.model, part, self._settled_of(name), progress or Silent())

    @overload  # as above: a pair is an iterable of texts, too
    def classify(  # type: ignore[overload-overlap]
        self, texts: Text, *, task: str | None = None
    ) -> Label: ...
    @overload
    def classify(self, texts: Iterable[Text], *, task: str | None = None) -> list[Label]: ...
    def classify(self, texts: Text | Iterable[Text], *, task: str | None = None) -> Label | list[Label]:
        """The class of one text or of a list of them; a pair of texts is a tuple of two. `task` says which is meant, where a
        model has several."""
        single = isinstance(texts, str) or (isinstance(texts, tuple) and len(texts) == 2)
        given = cast(list[Text], [texts] if single else list(texts))
        pairs = bool(given) and not isinstance(given[0], str)
        name, options = self._task(
            task,
            "classes",
            lambda task: not task.data.labels.are_scores,
            prefer=lambda task: _reads_pairs(task) == pairs,
        )
        if not given:
            return []
        said = item_outputs(self.model, self._windows(given, options), task=name)
        chances = class_chances(said, self._settled_of(name).get("threshold", 0.0))
        classes = options.data.labels.classes
        found = [dict(zip(classes, map(float, row), strict=True)) for row in chances]
        labels = [Label(best, of_text[best], of_text) for of_text in found for best in [max(of_text, key=of_text.__getitem__)]]
        return labels[0] if single else labels

    @overload
    def similarity(  # type: ignore[overload-overlap]
        self, first: str, second: str, *, task: str | None = None
    ) -> float: ...
    @overload
    def similarity(self, first: Iterable[str], second: Iterable[str], *, task: str | None = None) -> list[float]: ...
    def similarity(
        self, first: str | Iterable[str], second: str | Iterable[str], *, task: str | None = None
    ) -> float | list[float]:
        """How alike two texts are, or the texts of two lists, one by one: the score that the task learned, in its own range;
        of a task with classes, the probability of the last class (such as "is a paraphrase")."""
        name, options = self._task(task, "pairs", _reads_pairs, prefer=lambda task: task.data.labels.are_scores)
        single = isinstance(first, str) and isinstance(second, str)
        if not single and (isinstance(first, str) or isinstance(second, str)):
            raise LaminaError("similarity compares two texts, or two lists of them: one of these is a text, the other a list")
        a, b = ([first], [second]) if single else (list(first), list(second))
        if len(a) != len(b):
            raise LaminaError(f"similarity compares two lists text by text: one has {len(a)}, the other {len(b)}")
        pairs = cast(list[Text], list(zip(a, b, strict=True)))
        said = item_outputs(self.model, self._windows(pairs, options), task=name) if pairs else {}
        labels = options.data.labels
        if not pairs:
            scores: list[float] = []
        elif labels.are_scores:
            how = how_scored(options)
            scores = [labels.score(float(np.clip(share, 0, 1))) for share in said_scores(said, how)]
        else:
            chances = class_chances(said, self._settled_of(name).get("threshold", 0.0))
            scores = [float(row[-1]) for row in chances]
        return scores[0] if single else scores

    def embed(self, texts: str | Iterable[str], *, task: str | None = None) -> Floats:
        """[n, D] a vector of length 1 for each text; their products are cosines. Of one text, [D]."""
        name, options = self._task(task, "sentences", lambda task: task.of_sentences, prefer=_in_two_windows)
        given = [texts] if isinstance(texts, str) else list(texts)
        if not given:
            raise LaminaError("there is no text to embed")
        vectors = text_vectors(self.model, self._windows(cast(list[Text], given), options, sides=1), task=name)
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return cast(Floats, vectors[0] if isinstance(texts, str) else vectors)

    def _windows(self, texts: Sequence[Text], task: TaskOptions, sides: int | None = None) -> Windows:
        sentences = []
        for number, text in enumerate(texts, 1):
            if not isinstance(text, str) and not (isinstance(text, tuple) and len(text) == 2):
                raise LaminaError(f"text {number} is neither a text nor a pair of them (a tuple of two)")
            first, second = (text, None) if isinstance(text, str) else text
            if sides is None and (second is not None) != _reads_pairs(task):
                given, wanted = ("one text", "a pair (a tuple)") if second is None else ("a pair", "one text")
                raise LaminaError(f"text {number} is {given}, but the task judges {wanted}")
            for part in (first, second):
                if part is not None:
                    if not part.strip():
                        raise LaminaError(f"text {number} is empty")
                    _check_text(f"text {number}", part)
            sentences.append(Sentence(str(number), first, second))
        return self._cut(sentences, task, sides)

    def _cut(self, sentences: Sequence[Sentence], task: TaskOptions, sides: int | None = None) -> Windows:
        own = cast(SentenceHeadOptions, task.head).sides
        return make_sentence_windows(
            sentences, self.tokenizer, task.data.labels, length=self.recipe.window.length, sides=own if sides is None else sides
        )

    def _task(
        self,
        name: str | None,
        what: str,
        fits: Callable[[TaskOptions], bool],
        prefer: Callable[[TaskOptions], bool] = lambda _: False,
    ) -> tuple[str, TaskOptions]:
        """The task of that name, or the only one of sentences that fits; where several do, the one that is preferred."""
        of_sentences = {key: task for key, task in self.recipe.tasks.items() if task.of_sentences}
        fitting = {key: task for key, task in of_sentences.items() if fits(task)}
        if name is not None:
            if name not in fitting:
                there = f"there are {', '.join(fitting)}" if fitting else "this model has none"
                raise LaminaError(f"{name!r} is no task of this model's for {what}: {there}")
            return name, fitting[name]
        best = {key: task for key, task in fitting.items() if prefer(task)} or fitting
        if len(best) == 1:
            return next(iter(best.items()))
        if not best:
            raise LaminaError(f"this model has no task for {what}: its heads are {self._heads()}")
        raise LaminaError(f"this model has several tasks for {what}: name one of {', '.join(best)}")

    @property
    def question_task(self) -> str | None:
        """The name of the task that answers questions, if there is one."""
        return self._span

    def sentence_task(self, name: str | None = None) -> tuple[str, TaskOptions]:
        """The task of sentences of that name, or the only one."""
        return self._task(name, "sentences", lambda task: task.of_sentences)

    def _settled_of(self, name: str) -> dict[str, Any]:
        return self._settled.get(name, {"threshold": self.threshold})

    def _heads(self) -> str:
        return ", ".join(f"{task.head.type}" for task in self.recipe.tasks.values())

    def check_answers(self) -> None:
        """Refuses a model that does not answer questions."""
        if self._span is None:
            raise LaminaError(f"this model does not answer questions: its heads are {self._heads()}")

    @property
    def span_task(self) -> str:
        """The name of the task that answers questions; a model that has none is refused."""
        self.check_answers()
        return str(self._span)

    def _predictions(
        self, examples: Sequence[Example], options: AnswerOptions, progress: Progress, *, remember: bool = False
    ) -> Iterator[Prediction]:
        """Piece by piece, so that memory stays bounded; the last example of a piece may go on in the next."""
        task = self.span_task
        cutting = cut_examples(examples, self.tokenizer, self.recipe.window, remember=remember)
        progress.start("answering", len(cutting))
        open_number, open_parts = 0, list[Prediction]()
        for windows in cutting.pieces():
            logits = span_logits(self.model, windows, task=task, progress=progress)
            found = decode_piece(windows, logits.start, logits.end, examples, options)
            for number, prediction in found.items():
                if number != open_number:
                    yield merge(open_parts, options)
                    open_number, open_parts = number, []
                open_parts.append(prediction)
        if open_parts:
            yield merge(open_parts, options)


class ReadingOn:
    """Questions that are put to text after text. Only what the best answers need is kept."""

    def __init__(self, reader: Reader, questions: Sequence[str], top_k: int) -> None:
        self._reader, self._questions, self._top_k = reader, questions, top_k
        self._gatherings = [reader._gathering(top_k) for _ in questions]
        self.texts = 0  # how many were read
        self.windows = 0  # that were put through the model, those of every question

    def read(self, texts: Sequence[str]) -> None:
        """Some texts more, all in one batch; they are numbered on."""
        for number, text in enumerate(texts, self.texts + 1):
            _check_text(f"text {number}", text)
        counted = _Counted()
        predictions = self._reader._predictions(
            _pairs(self._questions, texts), self._reader._options(self._top_k), counted, remember=False
        )
        for (gathering, number), prediction in zip(product(self._gatherings, range(len(texts))), predictions, strict=True):
            gathering.add(self.texts + number, prediction)
        self.texts += len(texts)
        self.windows += counted.total

    @property
    def wanted(self) -> set[int]:
        """The numbers of the texts that the best answers so far are from."""
        return {placed.context for gathering in self._gatherings for placed in gathering.best}

    def replies(self, threshold: float | None = None) -> list[Reply]:
        """What all texts say so far, as `Reader.answer` would say it of all of them."""
        if not self.texts:
            raise LaminaError("there is no text to answer from: none was read")
        own = self._reader.question_threshold if self.texts > 1 else self._reader.threshold
        limit = own if threshold is None else threshold
        return [
            _reply(question, gathering, limit, self._top_k)
            for question, gathering in zip(self._questions, self._gatherings, strict=True)
        ]


class _Counted(Silent):
    """Progress that only knows how much there is to do."""

    total = 0

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.total = total


def load(
    model: str | Path,
    *,
    device: str = "auto",
    threads: int | None = None,
    allow_pickle: bool = False,
    tokenizer: str | None = None,
) -> Reader:
    """A reader from a run folder, or from a question-answering checkpoint: a folder or a hub id.

    `tokenizer` names another tokenizer than the checkpoint's own; `allow_pickle` lets its weights be a pickle, which can
    run code that is hidden in it.
    """
    if threads:
        torch.set_num_threads(threads)
    return Reader(load_trained(model, choose_device(device), allow_pickle=allow_pickle, tokenizer=tokenizer))


def _reads_pairs(task: TaskOptions) -> bool:
    return _in_two_windows(task) or task.data.pairs is True


def _in_two_windows(task: TaskOptions) -> bool:
    return cast(SentenceHeadOptions, task.head).sides == 2


def _check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LaminaError(f"{name}, character {error.start}: not UTF-8 text") from None


def _pairs(questions: Sequence[str], texts: Sequence[str]) -> list[Example]:
    """Every question with every text, question by question."""
    return [
        Example(f"{q}/{t}", question, text, (), str(q), str(t))
        for q, question in enumerate(questions)
        for t, text in enumerate(texts)
    ]


def _reply(question: str, gathering: Gathering, threshold: float, top_k: int) -> Reply:
    """The best answer of all texts; all candidates of all texts, and "no answer", share one probability."""
    no_answer, chances = gathering.probabilities()
    quotes = [_quote(placed, chance) for placed, chance in zip(gathering.best, chances, strict=True)]
    if gathering.answer(threshold) is None:
        return Reply(question, None, no_answer, no_answer=no_answer, others=tuple(quotes) if top_k > 1 else ())
    first, *others = quotes
    return Reply(question, first.text, first.confidence, first.context, first.start, first.end, no_answer, tuple(others))


def _quote(placed: Placed, chance: float) -> Quote:
    candidate = placed.candidate
    return Quote(candidate.text, chance, placed.context, candidate.start, candidate.end)
