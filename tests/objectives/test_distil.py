"""Self-distillation: the teachers, the loss, and the memory, which a resumed run must not lose."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lamina.config.parse import parse_recipe
from lamina.config.train_options import TrainOptions
from lamina.data.batches import Batch
from lamina.errors import LaminaError
from lamina.heads.outputs import ClassOutputs, Outputs, PairOutputs, ScoreOutputs, SpanOutputs
from lamina.model import Model
from lamina.objectives import DistilOptions, Remembers, SpanLoss
from lamina.objectives.distil import Distil, LastSteps, MeanOfLastSteps, MovingMean, mean_of
from lamina.objectives.divergence import kl, mean_square
from lamina.objectives.loss import Loss
from lamina.state_cache.dataset import Dataset
from lamina.training import steps as planning
from lamina.training.checkpoint import State, load_checkpoint, save_checkpoint
from tests import tiny
from tests.objectives.small import EACH_HEAD, THREE, batch_of, model_of, objective_of
from tests.outputs import logits_of

EACH_TEACHER = pytest.mark.parametrize("teacher", ["sda", "sdv", "ema"])


def distil(**options: Any) -> Distil:
    return DistilOptions(**options).build("main", THREE, objective_of("classification"))


def moved(model: Model, seed: int, size: float = 0.05) -> None:
    """Move the parameters in some direction."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(size * torch.randn_like(parameter))


def parameters(model: Model) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def step_of(term: Distil, model: Model, seed: int) -> None:
    """Move the parameters as a step does, and call the term as the training loop does."""
    term.before_step(model)
    moved(model, seed)
    term.after_step(model)


def after_steps(term: Distil, model: Model, steps: range) -> list[dict[str, Tensor]]:
    """Return the initial parameters and those after each of some steps; the last are the model's own."""
    history = [parameters(model)]
    for step in steps:
        step_of(term, model, step)
        history.append(parameters(model))
    return history


def outputs_with(model: Model, batch: Batch, weights: dict[str, Tensor]) -> Outputs:
    """Return the outputs of the model without dropout, with other parameters."""
    other = copy.deepcopy(model)
    other.load_state_dict(model.state_dict() | weights)
    with torch.no_grad():
        outputs: Outputs = other.eval()(batch)
    return outputs


def same(a: Outputs, b: Outputs) -> bool:
    return all(map(torch.equal, logits_of(a), logits_of(b)))


def near(a: Outputs, b: Outputs) -> None:
    for one, other in zip(logits_of(a), logits_of(b), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def loss_of(term: Distil, model: Model, batch: Batch) -> Tensor:
    return term(model, batch, model(batch), term.counts(batch))


# ---- the teachers


@EACH_HEAD
@pytest.mark.parametrize("teacher", ["sda", "sdv"])
def test_a_window_of_one_is_the_model_of_the_previous_step(name: str, teacher: str) -> None:
    model, batch = model_of(name), batch_of(name)
    term = distil(teacher=teacher, window=1)
    for step in range(3):
        previous, _ = after_steps(term, model, range(step, step + 1))
        assert same(term.taught(model, batch), outputs_with(model, batch, previous))
        assert not same(term.taught(model, batch), outputs_with(model, batch, {}))
        assert loss_of(term, model, batch) > 1e-5, "with the current weights in the window the term vanishes"


def mean_weights(history: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {key: torch.stack([past[key] for past in history]).mean(0) for key in history[0]}


@EACH_HEAD
@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("teacher", ["sda", "sdv"])
def test_the_teacher_equals_a_loop_over_stored_models(name: str, teacher: str, window: int) -> None:
    """At step t the loop takes the stored models of steps t-1 to t-K; before there are K, the term is 0."""
    model, batch = model_of(name), batch_of(name)
    term = distil(teacher=teacher, window=window)
    stored: list[dict[str, Tensor]] = []  # every past model, without the current one
    for step in range(2 * window + 2):
        if len(stored) < window:
            assert loss_of(term, model, batch).item() == 0
        else:
            past = stored[-window:]
            if teacher == "sda":
                wanted = outputs_with(model, batch, mean_weights(past))
            else:
                wanted = mean_of([outputs_with(model, batch, one) for one in past])
            near(term.taught(model, batch), wanted)
            assert not same(term.taught(model, batch), outputs_with(model, batch, {}))
        stored.append(parameters(model))
        step_of(term, model, step)


def test_a_mean_of_logits_is_not_the_logits_of_mean_parameters() -> None:
    batch, taught = batch_of("span"), []
    for teacher in ("sda", "sdv"):
        model, term = model_of("span"), distil(teacher=teacher, window=3)
        after_steps(term, model, range(8))
        taught.append(term.taught(model, batch))
    assert not same(*taught)


@pytest.mark.parametrize("window", [1, 3])
def test_the_teacher_of_the_papers_code_is_a_fifth_of_a_difference(window: int) -> None:
    """It is the newest step minus the oldest, divided by 5 for every window; then it is unchanged for a window."""
    model, term = model_of("span"), distil(teacher="sda", window=window, paper_code=True)
    history: list[dict[str, Tensor]] = []
    wanted: dict[str, Tensor] = {}
    for step in range(5 * window):
        history += after_steps(term, model, range(step, step + 1))[1:]
        if step // window in (1, 3):
            wanted = {name: (value - history[step - window][name]) / 5 for name, value in history[step].items()}
        assert (len(history) >= term.waits) == bool(wanted)
        if wanted:
            (kept,) = term.teacher.models()
            assert kept and all(torch.equal(value, wanted[name]) for name, value in kept.items())
    again = distil(teacher="sda", window=window, paper_code=True)
    again.load_state_dict(term.state_dict())
    for one in (term, again):
        after_steps(one, copy.deepcopy(model), range(100, 100 + window))
    assert same(term.taught(model, batch_of("span")), again.taught(model, batch_of("span")))


@pytest.mark.parametrize("teacher", ["sda", "sdv"])
def test_the_papers_code_compares_starts_only(teacher: str) -> None:
    model, batch = model_of("span"), batch_of("span")
    term = distil(teacher=teacher, window=2, paper_code=True)
    after_steps(term, model, range(3))
    outputs, taught = model(batch), term.taught(model, batch)
    assert isinstance(outputs, SpanOutputs) and isinstance(taught, SpanOutputs)
    found = term(model, batch, outputs, term.counts(batch))
    squares = ((taught.start - outputs.start) ** 2 * outputs.allowed).sum(-1) / outputs.allowed.sum(-1)
    torch.testing.assert_close(found, squares.mean())
    torch.testing.assert_close(term(model, batch, replace(outputs, end=0 * outputs.end), term.counts(batch)), found)


def test_the_papers_code_keeps_dropout_in_the_teachers_of_sdv() -> None:
    batch = batch_of("span")
    for teacher, differs in (("sdv", True), ("sda", False)):
        model = tiny.model(dropout=0.5).train()
        term = distil(teacher=teacher, window=1, paper_code=True)
        after_steps(term, model, range(2))
        assert same(term.taught(model, batch), term.taught(model, batch)) != differs


def test_the_windows_of_the_papers_code_include_the_current_weights() -> None:
    """Its SDV with a window of one compares the model with itself; ours compares it with the step before."""
    model, batch = model_of("span"), batch_of("span")
    code, ours = distil(teacher="sdv", window=1, paper_code=True), distil(teacher="sdv", window=1)
    for step in range(2):
        code.before_step(model)
        ours.before_step(model)
        moved(model, step)
        code.after_step(model)
        ours.after_step(model)
    assert same(code.taught(model, batch), outputs_with(model, batch, {}))
    assert not same(ours.taught(model, batch), outputs_with(model, batch, {}))


def test_the_papers_code_is_refused_for_other_options() -> None:
    for odd in ({"teacher": "ema"}, {"loss": "kl"}):
        with pytest.raises(ValueError, match="paper_code is for the teachers sda and sdv with the loss mse"):
            distil(paper_code=True, **odd)
    of_classes = {"data": {"train": "x"}, "head": {"type": "classification"}, "terms": {"distil": {"paper_code": True}}}
    with pytest.raises(LaminaError, match=r"terms\.distil\.paper_code is for heads of type span, cacnn, not classification"):
        parse_recipe(of_classes)


def test_ema_equals_a_loop() -> None:
    model = model_of()
    term = distil(teacher="ema", decay=0.5)
    history = after_steps(term, model, range(12))[1:]
    wanted = history[0]
    decays = []
    for step, now in enumerate(history[1:], 1):
        decays.append(min(0.5, (1 + step) / (10 + step)))
        wanted = {name: decays[-1] * value + (1 - decays[-1]) * now[name] for name, value in wanted.items()}
    assert decays[0] == 2 / 11
    assert decays[-1] == 0.5
    for name, value in term.teacher.models()[0].items():
        torch.testing.assert_close(value, wanted[name], atol=1e-6, rtol=1e-5)


def test_the_mean_of_outputs() -> None:
    a, b, allowed = torch.tensor([[1.0, 5.0]]), torch.tensor([[3.0, 6.0]]), torch.tensor([[True, False]])
    spans = mean_of([SpanOutputs(a, b, allowed), SpanOutputs(b, b, allowed)])
    assert isinstance(spans, SpanOutputs)
    assert spans.start.tolist() == [[2.0, 5.5]]
    assert spans.end.tolist() == [[3.0, 6.0]]
    assert spans.allowed is allowed


# ---- rounding


def test_the_running_sum_does_not_drift() -> None:
    """After a thousand steps it is as close to the mean as after ten."""
    torch.manual_seed(0)
    window = MeanOfLastSteps(5)
    values = torch.randn(1000, 200).cumsum(0)
    worst = []
    for step, value in enumerate(values):
        window.add({"w": value})
        if step >= 4:
            exact = values[step - 4 : step + 1].double().mean(0)
            size = values[max(0, step - 9) : step + 1].abs().amax(0)
            worst.append(((window.models()[0]["w"].double() - exact).abs() / size).max().item())
    assert max(worst) < 1e-6
    assert max(worst[-10:]) < 2 * max(worst[:100])


def test_a_huge_value_leaves_no_rounding_error() -> None:
    """The other values are lost beside it in the sum. After it leaves the window, the sum is soon computed anew."""
    window = MeanOfLastSteps(4)
    for value in (0.1, 0.2, 1e12, 0.3, 0.4, 0.5, 0.6, 0.7):
        window.add({"w": torch.tensor([value])})
    assert window.models()[0]["w"].item() == pytest.approx(0.55)


def test_kept_parameters_do_not_change_with_the_model() -> None:
    weights = {"w": torch.ones(2)}
    for teacher in (LastSteps(1), MeanOfLastSteps(1), MovingMean(0.9)):
        teacher.add(weights)
        weights["w"].fill_(7)
        assert teacher.models()[0]["w"].tolist() == [1, 1]
        weights["w"].fill_(1)


# ---- the loss


def slow_squares(a: Tensor, b: Tensor, allowed: Tensor) -> float:
    places = allowed.nonzero().tolist()
    rows = {row: [(a[row, p] - b[row, p]).item() ** 2 for r, p in places if r == row] for row, _ in places}
    return sum(sum(squares) / len(squares) for squares in rows.values()) / len(rows)


def scores_of(outputs: Outputs) -> Tensor:
    assert isinstance(outputs, PairOutputs | ScoreOutputs)
    return outputs.cosine if isinstance(outputs, PairOutputs) else outputs.scores


@EACH_HEAD
def test_the_squared_difference_from_the_teacher(name: str) -> None:
    model, batch = model_of(name), batch_of(name)
    term = distil(teacher="ema", weight=0.5)
    after_steps(term, model, range(2))
    outputs, taught = model(batch), term.taught(model, batch)
    found = term(model, batch, outputs, term.counts(batch)).item()
    if isinstance(outputs, SpanOutputs) and isinstance(taught, SpanOutputs):
        ends = [(outputs.start, taught.start), (outputs.end, taught.end)]
        wanted = sum(slow_squares(*end, outputs.allowed) for end in ends) / 2
    elif isinstance(outputs, ClassOutputs) and isinstance(taught, ClassOutputs):
        wanted = slow_squares(outputs.logits, taught.logits, torch.ones_like(outputs.logits, dtype=torch.bool))
    else:
        predicted, target = (scores_of(one) for one in (outputs, taught))
        wanted = sum((x - y) ** 2 for x, y in zip(predicted.tolist(), target.tolist(), strict=True)) / len(predicted)
    assert wanted > 1e-5
    assert found == pytest.approx(0.5 * wanted, rel=1e-3)


def test_kl_equals_a_loop() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(4, 6), torch.randn(4, 6)
    allowed = torch.tensor([[True, True, False, True, False, True]] * 4)
    found, squares = kl(a, b, allowed), mean_square(a, b, allowed)
    for row in range(4):
        p, q = (logits[row, allowed[0]].softmax(0).tolist() for logits in (a, b))
        assert found[row].item() == pytest.approx(sum(x * math.log(x / y) for x, y in zip(p, q, strict=True)), abs=1e-5)
        assert squares[row].item() == pytest.approx((a - b)[row, allowed[0]].square().mean().item())
    assert not kl(a, a, allowed).any()


def test_kl_is_that_of_the_teacher_to_the_model() -> None:
    model, batch = model_of(), batch_of("classification")
    term = distil(teacher="ema", loss="kl")
    after_steps(term, model, range(3))
    outputs, taught = model(batch), term.taught(model, batch)
    assert isinstance(taught, ClassOutputs)
    wanted = torch.nn.functional.kl_div(
        outputs.logits.log_softmax(-1), taught.logits.log_softmax(-1), log_target=True, reduction="batchmean"
    )
    assert wanted > 1e-4
    torch.testing.assert_close(term(model, batch, outputs, term.counts(batch)), wanted, rtol=1e-3, atol=1e-6)


@EACH_TEACHER
@EACH_HEAD
def test_the_teacher_has_no_gradient(name: str, teacher: str) -> None:
    """The gradient is that of the distance from constant targets, and no kept parameter requires one."""
    model, batch = model_of(name).eval(), batch_of(name)
    term = distil(teacher=teacher, window=2)
    after_steps(term, model, range(3))
    taught = term.taught(model, batch)
    assert not any(logits.requires_grad for logits in logits_of(taught))
    loss_of(term, model, batch).backward()
    assert not any(value.requires_grad for weights in term.teacher.kept.values() for value in weights.values())
    outputs = model(batch)
    if isinstance(outputs, SpanOutputs) and isinstance(taught, SpanOutputs):
        squares = (outputs.start - taught.start).square() + (outputs.end - taught.end).square()
        wanted = ((squares * outputs.allowed).sum(1) / outputs.allowed.sum(1) / 2).mean()
    elif isinstance(outputs, PairOutputs) and isinstance(taught, PairOutputs):
        wanted = (outputs.cosine - taught.cosine).square().mean()
    else:
        wanted = (logits_of(outputs)[0] - logits_of(taught)[0]).square().mean()
    gradients = torch.autograd.grad(wanted, list(model.parameters()), allow_unused=True)
    assert sum(gradient is not None for gradient in gradients) > 20
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        if gradient is not None:
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, gradient, atol=1e-6, rtol=1e-3)


def test_the_gradient_is_zero_at_the_teacher() -> None:
    model, batch = model_of("span"), batch_of("span")
    term = distil(window=1)
    term.before_step(model)
    for loss in ("mse", "kl"):
        same_one = Distil(DistilOptions(window=1, loss=loss), "main", term.teacher)
        assert loss_of(same_one, model.eval(), batch).item() == pytest.approx(0, abs=1e-9)


@EACH_HEAD
def test_micro_batches_add_up(name: str) -> None:
    model, batch = model_of(name).eval(), batch_of(name)
    term = distil(window=1)
    after_steps(term, model, range(1))
    moved(model, 9)
    assert term.counts(batch) == {"distil.items": len(batch.ids) / batch.sides}
    outputs = model(batch)
    whole = term(model, batch, outputs, term.counts(batch))
    cut = 2 * batch.sides
    parts = [_rows(batch, slice(0, cut)), _rows(batch, slice(cut, None))]
    totals = Loss([term]).counts(parts)
    added = torch.stack([term(model, part, model(part), totals) for part in parts]).sum()
    torch.testing.assert_close(added, whole, rtol=1e-4, atol=1e-7)


def _rows(batch: Batch, rows: slice) -> Batch:
    tensors = (batch.ids, batch.type_ids, batch.mask, batch.context, batch.gold)
    ids, type_ids, mask, context, gold = (part[rows] for part in tensors)
    return Batch(ids, type_ids, mask, context, gold, batch.windows[rows], sides=batch.sides)


def test_the_teacher_has_no_dropout_and_does_not_change_modes() -> None:
    model, batch = model_of(dropout=0.5), batch_of("classification")
    model.encoder.blocks[0].eval()  # as in a frozen layer
    modes = [part.training for part in model.modules()]
    for teacher in ("sda", "sdv", "ema"):
        term = distil(teacher=teacher, window=2)
        after_steps(term, model, range(2))
        once, twice = term.taught(model, batch), term.taught(model, batch)
        assert same(once, twice)
        assert [part.training for part in model.modules()] == modes
    assert not same(model(batch), model(batch)), "the model itself has dropout"


def test_the_teacher_draws_no_random_numbers() -> None:
    model, batch = model_of(dropout=0.5), batch_of("classification")
    term = distil(teacher="sdv", window=2)
    after_steps(term, model, range(2))
    state = torch.get_rng_state()
    term.taught(model, batch)
    assert torch.equal(torch.get_rng_state(), state)


def test_stored_states_are_read() -> None:
    """Nothing trains below the cut, so the teacher and the model have the same frozen layers."""
    model, batch = model_of("span"), batch_of("span")
    model.encoder.requires_grad_(False)
    model.encoder.blocks[1].requires_grad_(True)
    with torch.no_grad():
        stack = model.eval().encoder(model.encoder.embed(batch.ids, batch.type_ids), batch.mask, keep=(1,))
    term = distil(teacher="sdv", window=2)
    for seed in range(2):
        term.before_step(model)
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter) * parameter.requires_grad)
    near(term.taught(model, replace(batch, states=stack)), term.taught(model, batch))


# ---- the start


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        ({"teacher": "sda", "window": 3}, 3),
        ({"teacher": "sdv", "window": 2}, 2),
        ({"teacher": "ema"}, 1),
        ({"teacher": "sda", "window": 2, "start": 4}, 4),
        ({"teacher": "sda", "window": 4, "start": 2}, 4),
        ({"teacher": "ema", "start": 3}, 3),
    ],
)
def test_the_term_starts_when_the_teacher_has_seen_its_window(options: dict[str, Any], begins: int) -> None:
    model, batch = model_of("span", dropout=0.1), batch_of("span")
    term, plain = distil(**options), objective_of("span")
    both = Loss([plain, term])
    for step in range(6):
        outputs = model(batch)
        with_it, without = (loss(model, batch, outputs, loss.counts([batch])) for loss in (both, Loss([plain])))
        assert torch.equal(with_it, without) == (step < begins), step
        step_of(term, model, step)


# ---- the memory


@EACH_TEACHER
def test_only_trained_parameters_that_the_task_reads_are_kept(teacher: str) -> None:
    model = model_of()
    model.encoder.embeddings.requires_grad_(False)
    term = distil(teacher=teacher, window=3)
    assert isinstance(term, Remembers)
    after_steps(term, model, range(4))
    wanted = {name for name, value in model.named_parameters() if value.requires_grad and not name.startswith("tasks.other.")}
    copies = {"sda": 4, "sdv": 3, "ema": 1}[teacher]
    assert len(term.teacher.kept) == copies
    assert all(weights.keys() == wanted for weights in term.teacher.kept.values())
    assert len(term.state_dict()) == copies * len(wanted) + 1


def trained(model: Model, term: Distil, optimizer: torch.optim.Optimizer, batch: Batch, steps: range) -> None:
    objective = SpanLoss()
    for step in steps:
        torch.manual_seed(step)
        outputs = model(batch)
        loss = objective(model, batch, outputs, objective.counts(batch)) + term(model, batch, outputs, term.counts(batch))
        optimizer.zero_grad()
        loss.backward()
        term.before_step(model)
        optimizer.step()
        term.after_step(model)


def begun(teacher: str) -> tuple[Model, Distil, torch.optim.Optimizer]:
    model = model_of("span", dropout=0.1)
    return model, distil(teacher=teacher, window=3), torch.optim.AdamW(model.parameters(), lr=1e-3)


@EACH_TEACHER
@pytest.mark.parametrize("after", [2, 4])  # before and after the window is full
def test_resuming_from_a_checkpoint_is_exact(teacher: str, after: int, tmp_path: Path) -> None:
    batch = batch_of("span")
    whole, term, optimizer = begun(teacher)
    trained(whole, term, optimizer, batch, range(9))
    first, before, of_first = begun(teacher)
    trained(first, before, of_first, batch, range(after))
    save_checkpoint(tmp_path / "checkpoint.pt", first, of_first, State(step=after), [before])
    trained(first, before, of_first, batch, range(after, 9))  # the saved state must not change with the model
    second, restored, of_second = begun(teacher)
    moved(second, 77)
    assert load_checkpoint(tmp_path / "checkpoint.pt", second, of_second, [restored]).step == after
    trained(second, restored, of_second, batch, range(after, 9))
    assert all(map(torch.equal, whole.state_dict().values(), second.state_dict().values()))
    found, wanted = restored.state_dict(), term.state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)

    forgetful, _, of_forgetful = begun(teacher)
    empty = distil(teacher=teacher, window=3)
    load_checkpoint(tmp_path / "checkpoint.pt", forgetful, of_forgetful, [distil(teacher=teacher, window=3)])
    trained(forgetful, empty, of_forgetful, batch, range(after, 9))
    assert not all(map(torch.equal, whole.state_dict().values(), forgetful.state_dict().values()))


@pytest.mark.parametrize("teacher", ["sda", "sdv"])
def test_a_checkpoint_whose_teacher_includes_the_current_weights_is_refused(teacher: str) -> None:
    old = distil(teacher=teacher, window=2, paper_code=True)  # it counts as every teacher did before
    after_steps(old, model_of("span"), range(3))
    with pytest.raises(LaminaError, match=r"terms\.distil: .*included the current weights\. Fix: delete the checkpoint"):
        distil(teacher=teacher, window=2).load_state_dict(old.state_dict())


def test_a_restored_memory_is_a_copy() -> None:
    model = model_of()
    term, other = distil(window=2), distil(window=2)
    after_steps(term, model, range(3))
    other.load_state_dict(term.state_dict())
    kept = {name: value.clone() for name, value in other.state_dict().items()}
    after_steps(term, model, range(3, 6))
    assert all(torch.equal(value, kept[name]) for name, value in other.state_dict().items())


@pytest.mark.parametrize("options", [{"window": 5}, {"window": 20}, {"window": 2, "start": 1000}])
def test_a_time_budget_includes_the_teacher(options: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe times steps with distillation, and does not change the model."""
    term = distil(teacher="sdv", **options)
    batches: list[Batch] = []

    original = Distil.taught

    def taught(self: Distil, model: Model, batch: Batch) -> Outputs:
        batches.append(batch)
        return original(self, model, batch)

    monkeypatch.setattr(Distil, "taught", taught)  # patch the class, since the probe works on a copy of the term
    losses = {"main": Loss([SpanLoss(), term])}
    training, held_out = ({"main": Dataset(tiny.corpus(size), tiny.windows(tiny.corpus(size)))} for size in (3, 1))
    model = tiny.model(dropout=0.1)
    before = parameters(model)
    assert planning.make_plan(TrainOptions(minutes=0.01, batch_tokens=512), training, model, losses, held_out)
    assert batches
    assert all(torch.equal(value, before[name]) for name, value in parameters(model).items())
