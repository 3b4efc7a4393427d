"""Answers to questions, from one text or many, at once or as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any, overload

from lamina.answers.across_contexts import Gathering, Placed
from lamina.answers.calibration import Calibration
from lamina.answers.decode import AnswerOptions, Prediction, decode_piece, merge
from lamina.data.examples import Example
from lamina.data.windows import cut_examples
from lamina.errors import LaminaError
from lamina.model.inference import span_logits
from lamina.reader.replies import Quote, Reply
from lamina.reader.trained import TrainedReader, check_text
from lamina.runs.load import Trained
from lamina.scoring.predictions import score_both
from lamina.utils.progress import Progress, Silent


class QuestionReader(TrainedReader):
    """With its threshold for "no answer" and what its scores mean as probabilities."""

    def __init__(self, trained: Trained) -> None:
        super().__init__(trained)
        spans = [name for name, task in self.recipe.tasks.items() if task.objective.type == "span"]
        self._span = spans[0] if spans else None
        settled = trained.settled.get(self._span or "", {})
        self.threshold = settled.get("threshold", self.threshold)
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
            check_text(f"text {number}", text)
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
            check_text(f"question {number}", question)
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
        questions have several contexts these count one by one, and `questions` has the scores over all of them. KorQuAD's
        scores stand beside them if the model was trained with `train.scorer = "korquad"`."""
        predictions = self.predict(examples, progress)
        thresholds = self.threshold, self.question_threshold
        korean = self.recipe.train.scorer == "korquad"
        return score_both(predictions, examples, *thresholds, self.recipe.answer.across, korean=korean)

    @property
    def question_task(self) -> str | None:
        """The name of the task that answers questions, if there is one."""
        return self._span

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

    def __init__(self, reader: QuestionReader, questions: Sequence[str], top_k: int) -> None:
        self._reader, self._questions, self._top_k = reader, questions, top_k
        self._gatherings = [reader._gathering(top_k) for _ in questions]
        self.texts = 0  # how many were read
        self.windows = 0  # that were put through the model, those of every question

    def read(self, texts: Sequence[str]) -> None:
        """Some texts more, all in one batch; they are numbered on."""
        for number, text in enumerate(texts, self.texts + 1):
            check_text(f"text {number}", text)
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


def _pairs(questions: Sequence[str], texts: Sequence[str]) -> list[Example]:
    """Every question with every text, question by question."""
    return [
        Example(f"{q}/{t}", question, text, (), str(q), str(t))
        for q, question in enumerate(questions)
        for t, text in enumerate(texts)
    ]


def _reply(question: str, gathering: Gathering, threshold: float, top_k: int) -> Reply:
    """The best answer of all texts."""
    quotes = list(map(_quote, gathering.best))
    if (answer := gathering.answer(threshold)) is None:
        none = gathering.no_answer
        return Reply(question, None, none, no_answer=none, others=tuple(quotes) if top_k > 1 else ())
    first, *others = quotes
    said = first.text, first.confidence, first.context, first.start, first.end
    return Reply(question, *said, answer.no_answer, tuple(others))


def _quote(placed: Placed) -> Quote:
    candidate = placed.candidate
    return Quote(candidate.text, placed.probability, placed.context, candidate.start, candidate.end)
