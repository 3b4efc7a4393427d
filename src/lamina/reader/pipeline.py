"""`lamina.pipeline("question-answering")`: a drop-in for the pipeline that `transformers` had until version 5.3.

Arguments, results and rules are those of the old pipeline; docs/migrating.md lists the few differences. The model runs on
Lamina's encoder, which forms its own batches.

>>> from lamina import pipeline
>>> answer = pipeline("question-answering", model="deepset/roberta-base-squad2")  # doctest: +SKIP
>>> answer(question="Who built the mill?", context="The mill was built by Ada Thorn.")  # doctest: +SKIP
{'score': 0.9, 'start': 22, 'end': 31, 'answer': 'Ada Thorn'}
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from types import GeneratorType
from typing import Any

from pydantic import ValidationError

from lamina.answers.transformers_decoding import PipelineAnswer, SummedAnswers, add_windows
from lamina.data.windows import Cutting, WindowOptions
from lamina.encoder.hub import download
from lamina.errors import LaminaError
from lamina.reader.load import Reader, load
from lamina.utils.progress import Silent

TASK = "question-answering"
DEFAULT_MODEL = "distilbert/distilbert-base-cased-distilled-squad"  # as in transformers
OWNERS = {  # question-answering models that the hub once had without an owner
    "distilbert-base-cased-distilled-squad": "distilbert",
    "distilbert-base-uncased-distilled-squad": "distilbert",
    "bert-large-uncased-whole-word-masking-finetuned-squad": "google-bert",
    "bert-large-cased-whole-word-masking-finetuned-squad": "google-bert",
}
INPUTS = ("question", "context", "X", "data")

Answers = PipelineAnswer | list[PipelineAnswer]


def pipeline(
    task: str | None = None,
    model: str | Path | Reader | None = None,
    *,
    tokenizer: str | Path | None = None,
    device: Any = None,
    revision: str | None = None,
    token: Any = None,
    framework: str | None = "pt",
    dtype: Any = None,
    torch_dtype: Any = None,
    allow_pickle: bool = False,
    **options: Any,
) -> QuestionAnsweringPipeline:
    """Return a question-answering pipeline, as `transformers.pipeline` did until version 5.3.

    Args:
        task: "question-answering", or None.
        model: A run folder, a checkpoint folder, a hub id, or a `Reader`; None for the old default model.
        tokenizer: The folder or hub id of another tokenizer than that of the model.
        device: "cpu", "cuda", the number of a GPU, -1 for the CPU, or a torch device; None as for `lamina.load`.
        revision: The branch, tag or commit of a model on the hub.
        token: The token for the hub.
        framework: "pt", or None.
        dtype: "auto", "float32" or None: Lamina computes in float32.
        torch_dtype: The old name of `dtype`.
        allow_pickle: Read pickled weights of a checkpoint. A pickle can run hidden code.
        **options: The default options of a call, such as `top_k`, `max_answer_len` and `handle_impossible_answer`.

    Returns:
        An object that is called with `question` and `context`. An answer is a dict of `score` (from 0 to 1), `start` and
        `end` (indices of characters in the context) and `answer`.

    Raises:
        LaminaError: The model cannot be read, or does not answer questions.
        TypeError: An argument has the wrong type, or an option is unknown.
        ValueError: The task, framework or dtype is not supported.
    """
    if task not in (None, TASK):
        raise ValueError(f"task {task!r}: Lamina has only {TASK!r}; use transformers.pipeline for other tasks")
    if framework not in (None, "pt"):
        raise ValueError(f"framework {framework!r}: Lamina runs on torch only")
    if any(str(given) not in ("None", "auto", "float32", "torch.float32") for given in (dtype, torch_dtype)):
        raise ValueError(f"dtype {dtype or torch_dtype}: Lamina answers in float32")
    if isinstance(model, Reader):
        if (device, tokenizer, revision) != (None, None, None):
            raise ValueError("device, tokenizer and revision belong to lamina.load when the model is a Reader")
        return QuestionAnsweringPipeline(model, **options)
    for name, value in (("model", model), ("tokenizer", tokenizer)):
        if value is not None and not isinstance(value, str | Path):
            raise TypeError(f"{name} must be a folder or a hub id, not {type(value).__name__}")
    name = str(DEFAULT_MODEL if model is None else model)
    same = tokenizer is None or str(tokenizer) == name
    if not Path(name).exists() and name in OWNERS:
        name = f"{OWNERS[name]}/{name}"
    if not Path(name).exists() and (revision is not None or token is not None):
        name = str(download(name, pretrained=True, allow_pickle=allow_pickle, revision=revision, token=token))
    other = None if same else str(tokenizer)
    return QuestionAnsweringPipeline(
        load(name, backend="torch", device=_device(device), allow_pickle=allow_pickle, tokenizer=other), **options
    )


def _device(device: Any) -> str:
    if device is None:
        return "auto"
    if isinstance(device, int) and not isinstance(device, bool):
        return "cpu" if device < 0 else f"cuda:{device}"
    return str(device)


@dataclass(frozen=True)
class PipelineOptions:
    """The options of a call; None is the default of the old pipeline."""

    top_k: int = 1
    doc_stride: int | None = None  # tokens that two windows share; at most 128, at most half a window
    max_answer_len: int = 15  # tokens
    max_seq_len: int | None = None  # tokens of a window; 384, or the limit of the model
    max_question_len: int = 64  # accepted; it never had an effect with fast tokenizers
    handle_impossible_answer: bool = False  # "" may be the answer
    align_to_words: bool = True
    batch_size: int = 1  # items that are drawn from a generator at once; Lamina forms its own batches otherwise
    padding: Any = None  # accepted: results do not depend on it
    num_workers: int | None = None  # accepted: there are no workers

    def updated(self, **given: Any) -> PipelineOptions:
        """Return the options with those of a call."""
        if "topk" in given:
            warnings.warn("topk is deprecated, use top_k", UserWarning, stacklevel=3)
            topk = given.pop("topk")
            given["top_k"] = topk if given.get("top_k") is None else given["top_k"]
        known = {option.name for option in fields(self)}
        if unknown := sorted(given.keys() - known):
            raise TypeError(f"the question-answering pipeline has no option {unknown[0]!r}; it has {', '.join(sorted(known))}")
        options = replace(self, **{name: value for name, value in given.items() if value is not None})
        for name in ("top_k", "max_answer_len", "batch_size"):
            if getattr(options, name) < 1:
                raise ValueError(f"{name} parameter should be >= 1 (got {getattr(options, name)})")
        return options


class QuestionAnsweringPipeline:
    """A pipeline that is called with `question` and `context` (texts or lists of texts), or with dicts of both.

    One question gives a dict of score, start, end and answer; with `top_k` above 1, a list of them. Several questions give a
    list of these. A generator gives a generator.
    """

    task = TASK

    def __init__(self, reader: Reader, **options: Any) -> None:
        _ = reader.trained.span_task  # refuses a model that does not answer questions
        self.reader = reader
        self.options = PipelineOptions().updated(**options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given: dict[str, Any] = {name: kwargs.pop(name) for name in INPUTS if name in kwargs}
        options = self.options.updated(**kwargs)
        inputs = _inputs(args, given)
        if isinstance(inputs, GeneratorType | IndexedInputs):
            return self._stream(iter(inputs), options)
        pairs = [_pair(item) for item in inputs]
        answers = self._answer(pairs, options)
        return answers[0] if len(pairs) == 1 else answers

    def _stream(self, inputs: Iterator[Any], options: PipelineOptions) -> Iterator[Answers]:
        while some := [_pair(item) for item in islice(inputs, options.batch_size)]:
            yield from self._answer(some, options)

    def _answer(self, pairs: Sequence[tuple[str, str]], options: PipelineOptions) -> list[Answers]:
        task = self.reader.trained.span_task
        found = [SummedAnswers(context) for _, context in pairs]
        for windows in self._cut(pairs, options).pieces():
            logits = self.reader.trained.engine.spans(windows, task, Silent())
            add_windows(
                found,
                windows,
                logits.start,
                logits.end,
                top_k=options.top_k,
                max_tokens=options.max_answer_len,
                words=options.align_to_words,
            )
        best = [answers.best(options.top_k, impossible=options.handle_impossible_answer) for answers in found]
        return [answers if options.top_k > 1 and answers[0]["score"] > 0 else answers[0] for answers in best]

    def _cut(self, pairs: Sequence[tuple[str, str]], options: PipelineOptions) -> Cutting:
        limit = self.reader.model.encoder.config.max_length
        length = min(384, limit) if options.max_seq_len is None else options.max_seq_len
        overlap = min(length // 2, 128) if options.doc_stride is None else options.doc_stride
        if overlap > length:
            raise ValueError(f"`doc_stride` ({overlap}) is larger than `max_seq_len` ({length})")
        if length > limit:
            raise ValueError(f"`max_seq_len` ({length}) is larger than the {limit} tokens that the model can take")
        try:
            windows = WindowOptions(length=length, overlap=overlap, query=None)
            return Cutting(
                [question for question, _ in pairs],
                [context for _, context in pairs],
                self.reader.tokenizer,
                windows,
                words=options.align_to_words,
            )
        except ValidationError as error:
            raise ValueError(f"max_seq_len = {length}, doc_stride = {overlap}: {error.errors()[0]['msg']}") from None
        except LaminaError as error:
            raise ValueError(str(error)) from None


def _inputs(args: Sequence[Any], given: Mapping[str, Any]) -> Iterable[Any]:
    """Return the items of a call, for all forms of its arguments."""
    if len(args) == 2 and all(isinstance(arg, str) for arg in args):
        return [{"question": args[0], "context": args[1]}]
    if args:
        inputs: Any = args[0] if len(args) == 1 else list(args)
    elif "X" in given or "data" in given:
        inputs = given.get("X", given.get("data"))
    elif given.keys() == {"question", "context"}:
        return _zipped(given["question"], given["context"])
    else:
        raise ValueError(f"Unknown arguments {dict(given)}: give question and context")
    if isinstance(inputs, Mapping) or hasattr(inputs, "question_text"):
        return [inputs]
    if hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__") and not isinstance(inputs, Sequence):
        return IndexedInputs(inputs)
    if isinstance(inputs, str) or not isinstance(inputs, Iterable):
        raise ValueError(f"{inputs!r} argument needs to be a dict of question and context, or several of them")
    return inputs if isinstance(inputs, GeneratorType) else list(inputs)


class IndexedInputs:
    """A dataset that is read by number, like those of torch."""

    def __init__(self, inputs: Any) -> None:
        self.inputs = inputs

    def __iter__(self) -> Iterator[Any]:
        return (self.inputs[number] for number in range(len(self.inputs)))


def _zipped(question: Any, context: Any) -> list[dict[str, Any]]:
    if isinstance(question, str) and isinstance(context, str):
        return [{"question": question, "context": context}]
    if isinstance(question, list) and isinstance(context, str):
        return [{"question": one, "context": context} for one in question]
    if isinstance(question, list) and isinstance(context, list):
        if len(question) != len(context):
            raise ValueError("Questions and contexts don't have the same lengths")
        return [{"question": one, "context": text} for one, text in zip(question, context, strict=True)]
    raise ValueError("Arguments can't be understood: question and context are texts, or lists of texts")


def _pair(item: Any) -> tuple[str, str]:
    if hasattr(item, "question_text") and hasattr(item, "context_text"):  # a SquadExample of transformers
        return item.question_text, item.context_text
    if not isinstance(item, Mapping):
        raise ValueError(f"{item!r} argument needs to be a dict of question and context")
    for key in ("question", "context"):
        if key not in item:
            raise KeyError("You need to provide a dictionary with keys {question:..., context:...}")
        if item[key] is None:
            raise ValueError(f"`{key}` cannot be None")
        if not isinstance(item[key], str):
            raise ValueError(f"`{key}` must be a text, not {type(item[key]).__name__}")
        if not item[key]:
            raise ValueError(f"`{key}` cannot be empty")
    return item["question"], item["context"]
