"""The model from a batch to its loss: encoder, mixer, head and objective together."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from lamina.data.batches import Batch, make_batch
from lamina.data.hidden_states import HiddenStack
from lamina.data.padding import pack
from lamina.encoder import families
from lamina.encoder.blocks import Encoder
from lamina.heads import SpanHead, SpanOutputs
from lamina.mixers import LastLayer
from lamina.model import Model, Task
from lamina.objectives import SpanLoss
from lamina.objectives.span import span_cross_entropy
from tests.tiny import corpus, model, windows


@pytest.fixture(scope="module")
def batch() -> Batch:
    """Return rows of different lengths, answerable and not."""
    made = windows(corpus(2))
    assert len(set(made.lengths.tolist())) > 1
    return make_batch(made, range(len(made)))


def only(batch: Batch, row: int) -> Batch:
    """Return one row of a batch without its padding."""
    length = int(batch.mask[row].sum())
    wide = (batch.ids, batch.type_ids, batch.mask, batch.context)
    ids, type_ids, mask, context = (part[row : row + 1, :length] for part in wide)
    return Batch(ids, type_ids, mask, context, batch.gold[row : row + 1], batch.windows[row : row + 1])


def test_the_plain_model_equals_transformers(batch: Batch) -> None:
    import transformers

    config = transformers.BertConfig(
        vocab_size=30522,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        initializer_range=0.2,
    )
    torch.manual_seed(0)
    theirs = transformers.BertForQuestionAnswering(config).eval()
    nn.init.normal_(theirs.qa_outputs.bias)
    weights = theirs.state_dict()
    shape = replace(families.parse(config.to_dict(), where="test"), pooler=False)
    encoder = Encoder(shape)
    names = {name: families.checkpoint_name("bert", name) for name in encoder.state_dict()}
    encoder.load_state_dict({ours: weights[f"bert.{name}"] for ours, name in names.items()})
    head = SpanHead(32)
    head.load_state_dict({"weight": weights["qa_outputs.weight"], "bias": weights["qa_outputs.bias"]})
    ours = Model(encoder, {"main": Task(LastLayer(32, encoder.config.layers), head)}).eval()

    with torch.no_grad():
        found = ours(batch)
        wanted = theirs(input_ids=batch.ids, token_type_ids=batch.type_ids, attention_mask=batch.mask.long())
    assert wanted.start_logits.std() > 0.1
    torch.testing.assert_close(found.start[batch.mask], wanted.start_logits[batch.mask], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.end[batch.mask], wanted.end_logits[batch.mask], atol=1e-5, rtol=1e-5)


def test_a_row_does_not_depend_on_its_batch(batch: Batch) -> None:
    tiny = model(layers=2).eval()
    with torch.no_grad():
        together = tiny(batch)
        for row in range(len(batch.ids)):
            alone = tiny(only(batch, row))
            length = alone.start.shape[1]
            torch.testing.assert_close(together.start[row, :length], alone.start[0], atol=1e-5, rtol=0)
            torch.testing.assert_close(together.end[row, :length], alone.end[0], atol=1e-5, rtol=0)
            assert together.allowed[row].tolist() == alone.allowed[0].tolist() + [False] * (batch.ids.shape[1] - length)


def test_x_replaces_the_embeddings(batch: Batch) -> None:
    tiny = model().eval()
    with torch.no_grad():
        x = tiny.encoder.embed(batch.ids, batch.type_ids)
        assert torch.equal(tiny(batch, x=x).start, tiny(batch).start)
        assert not torch.equal(tiny(batch, x=x + 0.1 * torch.randn_like(x)).start, tiny(batch).start)


def test_the_span_head_reads_one_mixture_or_one_for_each_end(batch: Batch) -> None:
    rows, length = batch.ids.shape
    head = SpanHead(8)
    nn.init.normal_(head.weight)
    nn.init.normal_(head.bias)
    one, other = torch.randn(2, rows, 1, length, 8).unbind()
    shared = head(one, batch)
    twice = head(one.expand(-1, 2, -1, -1), batch)
    torch.testing.assert_close(twice.start, shared.start)
    torch.testing.assert_close(twice.end, shared.end)
    each = head(torch.cat([one, other], 1), batch)
    torch.testing.assert_close(each.start, shared.start)
    torch.testing.assert_close(each.end, head(other, batch).end)


def test_allowed_positions_are_the_context_and_the_classifier_token(batch: Batch) -> None:
    allowed = model().eval()(batch).allowed
    assert allowed[:, 0].all()
    assert torch.equal(allowed[:, 1:], batch.context[:, 1:])
    assert not batch.context[:, 0].any(), "the batch is not changed"


class _Asks(LastLayer):
    """A mixer that records its inputs."""

    def __init__(self, hidden: int, depth: int) -> None:
        super().__init__(hidden, depth)
        self.layers = (0, depth)

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        self.seen = (stack.layers, queries)
        return super().forward(stack, queries)


def test_a_mixer_gets_its_layers_and_the_queries_of_the_head(batch: Batch) -> None:
    tiny = model(layers=2)
    mixer, head = _Asks(16, 2), SpanHead(16)
    Model(tiny.encoder, {"main": Task(mixer, head)})(batch)
    layers, queries = mixer.seen
    assert layers == (0, 2)
    assert queries is head.weight


# The loss


def slow_loss(logits: list[float], allowed: list[bool], gold: int) -> float:
    total = sum(math.exp(value) for value, ok in zip(logits, allowed, strict=True) if ok)
    return -math.log(math.exp(logits[gold]) / total)


def random_outputs() -> tuple[SpanOutputs, Tensor]:
    torch.manual_seed(1)
    allowed = torch.rand(6, 9) < 0.6
    allowed[:, 0] = True
    gold = torch.stack([torch.tensor([int(torch.nonzero(row)[-1]), 0]) for row in allowed])
    return SpanOutputs(3 * torch.randn(6, 9), 3 * torch.randn(6, 9), allowed), gold


def test_the_loss_is_the_mean_of_two_cross_entropies() -> None:
    outputs, gold = random_outputs()
    wanted = [
        (slow_loss(start, allowed, first) + slow_loss(end, allowed, last)) / 2
        for start, end, allowed, (first, last) in zip(
            outputs.start.tolist(), outputs.end.tolist(), outputs.allowed.tolist(), gold.tolist(), strict=True
        )
    ]
    assert span_cross_entropy(outputs, gold).tolist() == pytest.approx(wanted, rel=1e-5)


def test_the_loss_ignores_logits_of_positions_that_are_not_allowed() -> None:
    outputs, gold = random_outputs()
    wild = torch.where(outputs.allowed, outputs.start, torch.tensor(1e4)).requires_grad_()
    loss = span_cross_entropy(replace(outputs, start=wild), gold)
    assert torch.equal(loss, span_cross_entropy(outputs, gold))
    (gradient,) = torch.autograd.grad(loss.sum(), wild)
    assert (gradient[~outputs.allowed] == 0).all()
    assert (gradient[outputs.allowed] != 0).all()


def test_micro_batches_add_up_to_the_step() -> None:
    made = windows(corpus(2))
    term = SpanLoss()
    results = []
    for tokens in (10**6, 300, 1):
        tiny = model(layers=2)
        batches = [make_batch(made, run) for run in pack(made.lengths, tokens)]
        totals = {"windows": sum(term.counts(batch)["windows"] for batch in batches)}
        assert totals == {"windows": float(len(made))}
        loss = sum((term(tiny, batch, tiny(batch), totals) for batch in batches), torch.zeros(()))
        loss.backward()
        results.append((len(batches), loss.detach(), [p.grad for p in tiny.parameters() if p.grad is not None]))
    assert [count for count, _, _ in results][::2] == [1, len(made)]
    for (_, loss, gradients), (_, other_loss, other_gradients) in pairwise(results):
        torch.testing.assert_close(loss, other_loss, atol=1e-6, rtol=0)
        assert len(gradients) == len(other_gradients) > 10
        for one, other in zip(gradients, other_gradients, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
