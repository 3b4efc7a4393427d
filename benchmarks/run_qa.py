"""The other side: the work of the question-answering example of `transformers` (run_qa) before and after its model.

It follows the example's rules and does the same work: the same Python loops over tokens, structures and defaults. Code for
other models (padding on the left, no classifier token) is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import datasets
import numpy as np
import numpy.typing as npt
import torch
import transformers

from lamina.data.examples import Example
from lamina.encoder.load import minilm_folder

LENGTH = 384  # max_seq_length
OVERLAP = 128  # doc_stride
BATCH = 8  # per_device_train_batch_size and per_device_eval_batch_size
N_BEST = 20
MAX_ANSWER = 30

Columns = dict[str, list[Any]]
Logits = Sequence[npt.NDArray[np.float32]]  # one array per feature


def load_tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(minilm_folder())


def load_model(*, attention_dropout: bool = True) -> Any:
    """Return the default encoder with a new span head. Without `attention_dropout`, the checkpoint's 0.1 becomes 0."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    changed = {} if attention_dropout else {"attention_probs_dropout_prob": 0.0}
    torch.manual_seed(0)
    return transformers.AutoModelForQuestionAnswering.from_pretrained(minilm_folder(), dtype=torch.float32, **changed)


def to_dataset(examples: Sequence[Example]) -> Any:
    """Return a dataset with the columns of SQuAD on the hub."""
    return datasets.Dataset.from_dict(
        {
            "id": [example.id for example in examples],
            "question": [example.question for example in examples],
            "context": [example.context for example in examples],
            "answers": [
                {"text": [a.text for a in example.answers], "answer_start": [a.start for a in example.answers]}
                for example in examples
            ],
        }
    )


def map_features(dataset: Any, tokenizer: Any, *, padded: bool = True) -> Any:
    """Return the training features of a dataset, without a cache."""
    datasets.disable_caching()
    datasets.disable_progress_bars()
    return dataset.map(
        lambda columns: train_features(columns, tokenizer, padded=padded),
        batched=True,
        remove_columns=dataset.column_names,
    )


def tokenize(columns: Columns, tokenizer: Any, *, padded: bool) -> Any:
    return tokenizer(
        [question.lstrip() for question in columns["question"]],
        columns["context"],
        truncation="only_second",
        max_length=LENGTH,
        stride=OVERLAP,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding="max_length" if padded else False,
    )


def train_features(columns: Columns, tokenizer: Any, *, padded: bool) -> Any:
    """Return inputs with the first and last token of the answer, or the classifier token if the window lacks it."""
    features = tokenize(columns, tokenizer, padded=padded)
    owners = features.pop("overflow_to_sample_mapping")
    all_offsets = features.pop("offset_mapping")
    starts: list[int] = []
    ends: list[int] = []
    for number, offsets in enumerate(all_offsets):
        ids = features["input_ids"][number]
        null = ids.index(tokenizer.cls_token_id)
        parts = features.sequence_ids(number)
        answers = columns["answers"][owners[number]]
        if not answers["answer_start"]:
            starts.append(null)
            ends.append(null)
            continue
        begin = answers["answer_start"][0]
        stop = begin + len(answers["text"][0])
        first = 0
        while parts[first] != 1:
            first += 1
        last = len(ids) - 1
        while parts[last] != 1:
            last -= 1
        if offsets[first][0] > begin or offsets[last][1] < stop:
            starts.append(null)
            ends.append(null)
            continue
        while first < len(offsets) and offsets[first][0] <= begin:
            first += 1
        while offsets[last][1] >= stop:
            last -= 1
        starts.append(first - 1)
        ends.append(last + 1)
    features["start_positions"] = starts
    features["end_positions"] = ends
    return features


def validation_features(columns: Columns, tokenizer: Any, *, padded: bool) -> Any:
    """Return inputs with the id of their example, and offsets that are None outside the context."""
    features = tokenize(columns, tokenizer, padded=padded)
    owners = features.pop("overflow_to_sample_mapping")
    features["example_id"] = [columns["id"][owner] for owner in owners]
    for number in range(len(owners)):
        parts = features.sequence_ids(number)
        features["offset_mapping"][number] = [
            offset if parts[token] == 1 else None for token, offset in enumerate(features["offset_mapping"][number])
        ]
    return features


def answers_of(examples: Sequence[Example], features: Any, start: Logits, end: Logits) -> dict[str, str]:
    """Return the answer to each question, "" for none, as the example does with version_2_with_negative."""
    index = {example.id: number for number, example in enumerate(examples)}
    features_of: dict[int, list[int]] = defaultdict(list)
    for number, example_id in enumerate(features["example_id"]):
        features_of[index[example_id]].append(number)
    answers: dict[str, str] = {}
    n_best: dict[str, list[dict[str, Any]]] = {}
    for number, example in enumerate(examples):
        null, candidates = _candidates(features_of[number], features["offset_mapping"], start, end)
        ranked = sorted([*candidates, null], key=lambda candidate: candidate["score"], reverse=True)[:N_BEST]
        if not any(candidate["offsets"] == (0, 0) for candidate in ranked):
            ranked.append(null)
        null_score = null["score"]
        for candidate in ranked:
            first, last = candidate.pop("offsets")
            candidate["text"] = example.context[first:last]
        if len(ranked) == 1 and ranked[0]["text"] == "":
            ranked.insert(0, {"text": "empty", "start_logit": 0.0, "end_logit": 0.0, "score": 0.0})
        scores = np.array([candidate.pop("score") for candidate in ranked])
        weights = np.exp(scores - np.max(scores))
        for probability, candidate in zip(weights / weights.sum(), ranked, strict=True):
            candidate["probability"] = probability
        best = next(candidate for candidate in ranked if candidate["text"] != "")
        odds = null_score - best["start_logit"] - best["end_logit"]
        answers[example.id] = "" if odds > 0 else best["text"]
        n_best[example.id] = [
            {key: float(value) if isinstance(value, np.floating) else value for key, value in candidate.items()}
            for candidate in ranked
        ]
    return answers


def _candidates(
    numbers: Sequence[int], all_offsets: Sequence[Sequence[tuple[int, int] | None]], start: Logits, end: Logits
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the null answer of the features with these numbers, and all spans between their best starts and ends."""
    null: dict[str, Any] = {}
    candidates: list[dict[str, Any]] = []
    for number in numbers:
        starts, ends, offsets = start[number], end[number], all_offsets[number]
        null_score = starts[0] + ends[0]
        if not null or null["score"] > null_score:
            null = {"offsets": (0, 0), "score": null_score, "start_logit": starts[0], "end_logit": ends[0]}
        best_ends = np.argsort(ends)[-1 : -N_BEST - 1 : -1].tolist()
        for first in np.argsort(starts)[-1 : -N_BEST - 1 : -1].tolist():
            for last in best_ends:
                if first >= len(offsets) or last >= len(offsets) or offsets[first] is None or offsets[last] is None:
                    continue
                if last < first or last - first + 1 > MAX_ANSWER:
                    continue
                candidates.append(
                    {
                        "offsets": (offsets[first][0], offsets[last][1]),
                        "score": starts[first] + ends[last],
                        "start_logit": starts[first],
                        "end_logit": ends[last],
                    }
                )
    return null, candidates
