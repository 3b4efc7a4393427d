"""`lamina.load` and the `Reader` that it returns.

>>> import lamina
>>> reader = lamina.load()
>>> reader.answer("Who built the mill?", "The mill was built by Ada Thorn.").text
'Ada Thorn'
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, get_args

from lamina.answers.across_contexts import Quote
from lamina.errors import LaminaError
from lamina.reader.questions import QuestionReader, TextByText
from lamina.reader.replies import Reply
from lamina.reader.sentences import Label, SentenceReader, Text
from lamina.runtime.exported import Backend, Precision, Rival, has_torch, load_exported, wants_export
from lamina.runtime.ready import ReadyModel
from lamina.tasks.kind import DataLike, ScoreTable
from lamina.utils.extras import needs_torch
from lamina.utils.files import expanded
from lamina.utils.progress import Progress, Silent
from lamina.utils.run_folder import Run
from lamina.utils.shipped import READER, model_folder

__all__ = ["Label", "Quote", "Reader", "Reply", "Text", "TextByText", "evaluate", "load"]


class Reader(QuestionReader, SentenceReader):
    """A trained model. It answers questions, classifies and compares sentences, or both, as its tasks allow.

    `lamina.load` returns one. `answer` answers questions from texts. `classify`, `similarity` and `embed` read sentences.
    `evaluate` and `predictions` read whole datasets. `calibrate` returns a reader for other questions. `save` and
    `push_to_hub` write the model.
    """

    def save(self, folder: str | Path, *, license: str | None = None, weights: Literal["float32", "int8"] = "float32") -> Run:
        """Write the model into a folder that `lamina.load` opens again with the same answers.

        The folder holds the recipe, the weights, the tokenizer, the decisions, the scores and a model card. It holds no
        state of the training, and names files of this machine without their folders. If the encoder comes with Lamina or
        from the hub, its frozen weights are left out.

        Args:
            folder: The new folder. It may exist if it is empty.
            license: The license of the model for its card, as the hub abbreviates it, such as "apache-2.0".
            weights: "float32" keeps the weights. "int8" rounds them to 8 bits with a scale for each row: a quarter of the
                size, and answers that may differ a little.

        Returns:
            The paths of the folder.

        Raises:
            LaminaError: The folder exists and is not empty, or cannot be written.
            ValueError: `weights` has another value.
        """
        if weights not in ("float32", "int8"):
            raise ValueError(f'weights must be "float32" or "int8", not {weights!r}')
        with needs_torch("Reader.save"):
            from lamina.reader.saving import save
            from lamina.runs.load import as_torch

            return save(as_torch(self.trained), expanded(folder), license=license, weights=weights)

    def calibrate(
        self,
        data: DataLike | None = None,
        *,
        unanswerable: float | None = None,
        old_unanswerable: float | None = None,
        task: str | None = None,
        progress: Progress | None = None,
    ) -> tuple[Reader, dict[str, Any]]:
        """Return a reader with another threshold and confidences, for questions as they are in use, and a report.

        Labelled questions fit both; 50 suffice. Without labels, both are shifted to the share of unanswerable questions in
        use. It is `unanswerable`, or else estimated from the questions. This reader does not change, and both share the model.

        >>> calibrated, report = reader.calibrate(unanswerable=0.5)  # doctest: +SKIP
        >>> calibrated.save("models/calibrated")  # doctest: +SKIP

        Args:
            data: Questions with their contexts, as `evaluate` takes them. Data without any answer counts as unlabelled.
            unanswerable: The share of unanswerable questions in use, between 0 and 1. None for that of the data.
            old_unanswerable: The share that the model was fitted for, if the model does not know it.
            task: The task to calibrate, if the model has several that answer questions.
            progress: Where progress goes; nowhere if None.

        Returns:
            The new reader, and the report that ``lamina calibrate --json`` prints: decisions and scores before and after.

        Raises:
            LaminaError: The data cannot be read or is too small, the old share is not known, or the model has no spans.
            ValueError: A share is not between 0 and 1.
        """
        from lamina.reader.calibrating import Shares, calibrate

        shares = Shares(unanswerable, old_unanswerable)
        trained, report = calibrate(self, data, shares, task=task, progress=progress or Silent())
        return Reader(trained), report

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = False,
        token: str | None = None,
        revision: str | None = None,
        commit_message: str = "Upload a Lamina model",
        license: str | None = None,
    ) -> str:
        """Upload the model with its model card to the hub. ``lamina.load(repo_id)`` loads it from there.

        Files of an older model that this one does not have are deleted. `recipe.json` has no absolute paths of this machine.

        Args:
            repo_id: The repository, "owner/name". It is created if it does not exist.
            private: Create the repository as a private one.
            token: The token for the hub; None for the one of `hf auth login`.
            revision: The branch to upload to; it is created if it does not exist. None for the main branch.
            commit_message: The first line of the commit.
            license: The license of the model for its card, such as "apache-2.0".

        Returns:
            The address of the commit.

        Raises:
            LaminaError: The hub refuses the upload or cannot be reached.
        """
        with needs_torch("Reader.push_to_hub"):
            from lamina.reader.saving import push
            from lamina.runs.load import as_torch

            return push(
                as_torch(self.trained),
                repo_id,
                private=private,
                token=token,
                revision=revision,
                commit_message=commit_message,
                license=license,
            )

    def __repr__(self) -> str:
        tasks = ", ".join(f"{name}: {task.head.type}" for name, task in self.recipe.tasks.items())
        return f"Reader({tasks}; {self.trained.shape})"


def evaluate(
    model: str | Path | Reader, data: DataLike, *, task: str | None = None, progress: Progress | None = None
) -> ScoreTable:
    """Return the scores of a model on labelled data, as `Reader.evaluate` does.

    Args:
        model: A reader, or what `load` takes.
        data: A file name or dataset name, a list of dicts, a pandas DataFrame, a `datasets.Dataset`, or a list of `Example`.
        task: The task to score, if the model has several.
        progress: Where progress goes; nowhere if None.

    Returns:
        Scores by name. Span scores are in percent, under `zero`, `tuned` and `best`, by the threshold.

    Raises:
        LaminaError: The model or the data cannot be read, or the task is not clear.
    """
    reader = model if isinstance(model, Reader) else load(model)
    return reader.evaluate(data, task=task, progress=progress)


def load(
    model: str | Path = READER,
    *,
    backend: Backend = "auto",
    device: str = "auto",
    threads: int | None = None,
    precision: Precision = "auto",
    allow_pickle: bool = False,
    tokenizer: str | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> Reader:
    """Return the reader of a trained model.

    Args:
        model: A run of Lamina or a question-answering checkpoint: a folder, or a hub id such as "owner/name". "reader" is
            the model inside the package, which answers questions from English texts.
        backend: What computes: "torch", or "onnx" or "openvino" for a model that `lamina export --to onnx` wrote, which needs
            no torch. "auto" takes the fastest of them for an exported model, and torch for others. A test of a few seconds,
            made once per model and machine, tells what is fastest.
        device: "auto", "cpu", "cuda" or "mps". Only torch computes on others than "cpu".
        threads: How many threads compute, 1 or more; None for all processors, and for torch for its own number.
        precision: The number format of the computation. "auto" is float32 with torch. With an exported model it is the
            fastest that it has, by the same test. "bfloat16" (torch only) rounds more, and is faster on processors that have
            instructions for it, such as AVX512-BF16. "int8" is for exported models.
        allow_pickle: Read pickled weights of a checkpoint, or of the encoder that a run started from. A pickle can run
            hidden code. The recipe of a run cannot allow it.
        tokenizer: A folder, file or hub id of another tokenizer than the checkpoint's own.
        revision: The branch, tag or commit of a model on the hub; None for the main branch.
        token: The token for the hub; None for the one of `hf auth login`.

    Returns:
        The reader. `Reader.backend` says what computes.

    Raises:
        LaminaError: There is no such model, or it cannot be read.
        TypeError: An argument has the wrong type.
        ValueError: `threads` is less than 1, or `backend` or `precision` has another value.
    """
    if not isinstance(model, str | Path):
        raise TypeError(f"model must be a path or a hub id, not {type(model).__name__}")
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool)):
        raise TypeError(f"threads must be a whole number, not {type(threads).__name__}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be 1 or more, not {threads}")
    for name, value, known in (("backend", backend, get_args(Backend)), ("precision", precision, get_args(Precision))):
        if value not in known:
            raise ValueError(f"{name} must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}, not {value!r}")
    folder = model_folder(model)
    if wants_export(folder, backend, precision, device=device, plain=tokenizer is None and revision is None):
        compare = backend == "auto" and precision != "int8" and Run(folder).model.is_file() and has_torch()
        rivals = {"torch, float32": _in_torch(folder, threads)} if compare else {}
        return Reader(load_exported(folder, precision, threads, backend=backend, rivals=rivals))
    if precision == "int8":
        raise LaminaError(
            f'{model}: precision "int8" is for models that were exported with it. Fix: run `lamina export --to onnx --int8`'
        )
    with needs_torch(f"loading {model}"):
        from lamina.runs.load import load_for_reading

        trained = load_for_reading(
            model,
            device,
            threads,
            precision="float32" if precision == "auto" else precision,
            allow_pickle=allow_pickle,
            tokenizer=tokenizer,
            revision=revision,
            token=token,
        )
    return Reader(trained)


def _in_torch(folder: Path, threads: int | None) -> Rival:
    """Return the model of a folder as torch runs it in float32."""

    def load() -> ReadyModel:
        with needs_torch(f"loading {folder}"):
            from lamina.runs.load import load_for_reading

            return load_for_reading(
                folder,
                "cpu",
                threads,
                precision="float32",
                allow_pickle=False,
                tokenizer=None,
                revision=None,
                token=None,
            )

    def alone() -> AbstractContextManager[None]:
        from lamina.utils.parallel import one_thread

        return one_thread()

    return Rival(load, alone)
