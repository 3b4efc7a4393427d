from __future__ import annotations

import math
from typing import cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.errors import LaminaError
from lamina.heads.outputs import PairOutputs, ScoreOutputs
from lamina.model import Model
from lamina.objectives import BinaryCrossEntropyOptions, RankingOptions

NO_MODEL = cast(Model, None)
TWO = Labels(("no", "yes"))
OBJECTIVE = BinaryCrossEntropyOptions().build(TWO)
Pair = tuple[str, str, bool]  # two texts and whether they are similar


def batch_of(pairs: list[Pair], padding: int = 0) -> Batch:
    """Return a row of letters for each text; its padding has random content."""
    texts = [text for pair in pairs for text in pair[:2]]
    width = max(map(len, texts)) + padding
    torch.manual_seed(len(pairs))
    ids = torch.randint(97, 123, (len(texts), width))
    mask = torch.arange(width) < torch.tensor([len(text) for text in texts])[:, None]
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor([ord(letter) for letter in text])
    labels = torch.tensor([float(alike) for *_, alike in pairs])
    gold = torch.zeros(len(texts), 2, dtype=torch.int64)
    return Batch(ids, torch.zeros_like(ids), mask, mask, gold, tuple(range(len(texts))), labels=labels, sides=2)


def outputs_of(pairs: list[Pair]) -> PairOutputs:
    """Return a random unit vector for each text; equal texts have equal vectors."""
    generator = torch.Generator().manual_seed(5)
    vectors: dict[str, torch.Tensor] = {}
    for text in [text for pair in pairs for text in pair[:2]]:
        vectors.setdefault(text, torch.nn.functional.normalize(torch.randn(6, generator=generator), dim=-1))
    first, second = torch.stack([vectors[a] for a, _, _ in pairs]), torch.stack([vectors[b] for _, b, _ in pairs])
    cosine = (first * second).sum(-1)
    return PairOutputs(cosine, cosine, first, second)


def naive(pairs: list[Pair], scale: float) -> float:
    outputs, losses = outputs_of(pairs), []
    alike_texts = {frozenset((a, b)) for a, b, alike in pairs if alike}
    for i, (a, b, alike) in enumerate(pairs):
        if not alike:
            continue
        for forward in (True, False):
            asking = outputs.first[i] if forward else outputs.second[i]
            candidates = outputs.second if forward else outputs.first
            own = math.exp(scale * float(asking @ candidates[i]))
            total = own
            for j, (c, d, _) in enumerate(pairs):
                text = d if forward else c
                known = text in (a, b) or any(frozenset((text, of_pair)) in alike_texts for of_pair in (a, b))
                if j != i and not known:
                    total += math.exp(scale * float(asking @ candidates[j]))
            losses.append(-math.log(own / total))
    return sum(losses) / max(1, len(losses))


words = st.sampled_from(["a", "b", "ab", "ba", "abc", "c", "cab"])


@given(st.lists(st.tuples(words, words, st.booleans()), min_size=1, max_size=7), st.sampled_from([1.0, 5.0]))
@settings(deadline=None, max_examples=150)
def test_the_loss_equals_a_loop(pairs: list[Pair], scale: float) -> None:
    batch = batch_of(pairs)
    term = RankingOptions(scale=scale).build("main", TWO, OBJECTIVE)
    assert term.counts(batch) == {"ranking.positives": sum(alike for *_, alike in pairs)}
    found = term(NO_MODEL, batch, outputs_of(pairs), term.counts(batch)).item()
    assert found == pytest.approx(naive(pairs, scale), abs=1e-5)


def test_without_equal_texts_the_loss_is_the_plain_softmax_in_both_directions() -> None:
    pairs: list[Pair] = [("a", "b", True), ("c", "d", True), ("e", "f", True), ("g", "h", True)]
    outputs = outputs_of(pairs)
    scores = 20 * outputs.first @ outputs.second.t()
    target = torch.arange(4)
    wanted = (torch.nn.functional.cross_entropy(scores, target) + torch.nn.functional.cross_entropy(scores.t(), target)) / 2
    term = RankingOptions().build("main", TWO, OBJECTIVE)
    found = term(NO_MODEL, batch_of(pairs), outputs, {"ranking.positives": 4.0})
    assert found.item() == pytest.approx(wanted.item(), abs=1e-5)


def test_equal_texts_are_no_negatives_whatever_their_padding() -> None:
    alone: list[Pair] = [("rain", "drizzle", True)]
    doubled: list[Pair] = [("rain", "drizzle", True), ("sun", "drizzle", False)]
    other: list[Pair] = [("rain", "drizzle", True), ("sun", "moon", False)]
    term = RankingOptions(scale=1.0).build("main", TWO, OBJECTIVE)
    losses = [term(NO_MODEL, batch_of(p, 3), outputs_of(p), {"ranking.positives": 1.0}).item() for p in (alone, doubled, other)]
    assert losses[0] == 0
    assert 0 < losses[1] < losses[2]  # "sun" is still a negative of "drizzle"


def test_a_step_without_similar_pairs_has_no_loss() -> None:
    pairs: list[Pair] = [("a", "b", False), ("c", "d", False)]
    outputs = outputs_of(pairs)
    outputs.first.requires_grad_()
    term = RankingOptions().build("main", TWO, OBJECTIVE)
    loss = term(NO_MODEL, batch_of(pairs), outputs, {"ranking.positives": 0.0})
    assert loss.item() == 0
    loss.backward()
    assert outputs.first.grad is not None
    assert not outputs.first.grad.any()


def test_scores_from_three_of_five_are_similar() -> None:
    batch = batch_of([("a", "b", True), ("c", "d", True), ("e", "f", True)])
    assert batch.labels is not None
    batch.labels.copy_(torch.tensor([2.9, 3.0, 5.0]))
    assert RankingOptions().build("main", Labels(low=0, high=5), OBJECTIVE).counts(batch) == {"ranking.positives": 2.0}


def test_weight() -> None:
    pairs: list[Pair] = [("a", "b", True), ("c", "d", False)]
    once, twice = (
        RankingOptions(weight=w).build("main", TWO, OBJECTIVE)(
            NO_MODEL, batch_of(pairs), outputs_of(pairs), {"ranking.positives": 1.0}
        )
        for w in (1.0, 2.0)
    )
    assert twice.item() == pytest.approx(2 * once.item())


def test_labels_and_heads_that_do_not_fit() -> None:
    with pytest.raises(LaminaError, match=r"terms\.ranking: it needs scores or two classes"):
        RankingOptions().build("main", Labels(("a", "b", "c")), OBJECTIVE)
    term = RankingOptions().build("main", TWO, OBJECTIVE)
    with pytest.raises(LaminaError, match=r'Fix: set head\.type = "cosine"'):
        term(NO_MODEL, batch_of([("a", "b", True)]), ScoreOutputs(torch.zeros(1)), {"ranking.positives": 1.0})
