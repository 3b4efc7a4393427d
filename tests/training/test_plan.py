from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from lamina.training.plan import POOL, STAGES, Sampling, evaluation_points, plan_epoch, plan_steps

LENGTHS = np.random.default_rng(0).integers(20, 385, 3000)


def steps(seed: int, epochs: float, **options: int) -> list[tuple[int, list[int]]]:
    plan = plan_steps(
        seed, epochs, {"main": lambda _: LENGTHS}, tokens=options.get("tokens", 3072), windows=options.get("windows")
    )
    return [(epoch, draw.items.tolist()) for epoch, (draw,) in plan]


@pytest.mark.parametrize("options", [{"tokens": 3072}, {"tokens": 400}, {"tokens": 3072, "windows": 16}])
def test_every_window_occurs_once_an_epoch(options: dict[str, int]) -> None:
    for epoch in range(2):
        rows = [row for number, step in steps(1, 2, **options) if number == epoch for row in step]
        assert sorted(rows) == list(range(len(LENGTHS)))


def test_plan_depends_on_the_seed_alone() -> None:
    np.random.seed(0)  # the plan must not use the global generator
    first = steps(1, 1)
    assert steps(1, 1) == first
    assert steps(2, 1) != first


def test_epochs_differ_and_do_not_depend_on_their_number() -> None:
    three = steps(1, 3)
    assert three[: len(steps(1, 1))] == steps(1, 1)
    assert three[: len(steps(1, 2))] == steps(1, 2)
    by_epoch = [[rows for number, rows in three if number == epoch] for epoch in range(3)]
    assert by_epoch[0] != by_epoch[1] != by_epoch[2]
    assert [rows.tolist() for rows in plan_epoch(1, 2, LENGTHS, tokens=3072)] == by_epoch[2]


@pytest.mark.parametrize("epochs", [0.0001, 0.3, 0.5, 1.25, 2.999])
def test_incomplete_epoch_is_a_prefix_of_the_whole_one(epochs: float) -> None:
    part, whole = steps(1, epochs), steps(1, 3)
    assert part == whole[: len(part)]
    counts = [sum(epoch == number for epoch, _ in whole) for number in range(3)]
    assert len(part) == max(1, round(sum(min(1, max(0, epochs - number)) * count for number, count in enumerate(counts))))


def test_steps_fill_the_token_budget() -> None:
    batches = plan_epoch(0, 0, LENGTHS, tokens=3072)
    padded = [int(LENGTHS[rows].max()) * len(rows) for rows in batches]
    assert max(padded) <= 3072
    assert LENGTHS.sum() / sum(padded) > 0.97, "windows of similar length share a step"


def test_steps_of_a_fixed_number_of_windows() -> None:
    sizes = [len(rows) for rows in plan_epoch(0, 0, LENGTHS, tokens=10, windows=48)]
    pools = -(-len(LENGTHS) // POOL)
    assert max(sizes) == 48
    assert sum(size < 48 for size in sizes) <= pools


def test_steps_are_not_sorted_by_length() -> None:
    means = [LENGTHS[rows].mean() for rows in plan_epoch(0, 0, LENGTHS, tokens=3072)]
    rank = np.corrcoef(np.arange(len(means)), np.argsort(np.argsort(means)))[0, 1]
    assert abs(rank) < 0.2


@pytest.mark.parametrize(("every", "count"), [(0.25, 12), (1.0, 3), (5.0, 1)])
def test_evaluation_points(every: float, count: int) -> None:
    plan = list(plan_steps(0, 3, {"main": lambda _: LENGTHS}, tokens=3072))
    points = sorted(evaluation_points(plan, len(LENGTHS), every))
    assert len(points) == count
    assert points[-1] == len(plan)
    seen = np.cumsum([len(draw.items) for _, (draw,) in plan])
    for number, point in enumerate(points[:-1], 1):
        mark = number * every * len(LENGTHS)
        assert seen[point - 1] >= mark - 1e-6
        assert point == 1 or seen[point - 2] < mark


def test_evaluation_points_within_an_incomplete_epoch() -> None:
    plan = list(plan_steps(0, 0.3, {"main": lambda _: LENGTHS}, tokens=3072))
    points = sorted(evaluation_points(plan, len(LENGTHS), 0.25))
    assert len(points) == 2
    assert points[-1] == len(plan)


def test_frequent_evaluation_evaluates_each_step_once() -> None:
    plan = list(plan_steps(0, 1, {"main": lambda _: LENGTHS}, tokens=3072))
    assert evaluation_points(plan, len(LENGTHS), 0.0005) == set(range(1, len(plan) + 1))


# ---- several tasks

TASKS = {"large": LENGTHS, "small": LENGTHS[:400], "middle": LENGTHS[:1200]}
SAMPLINGS = ("round_robin", "proportional", "annealed", "square_root", "combined")


def turns(sampling: Sampling, epochs: float = 2, seed: int = 0) -> list[tuple[int, list[tuple[str, list[int]]]]]:
    lengths = {name: lambda _, of_task=of_task: of_task for name, of_task in TASKS.items()}
    plan = plan_steps(seed, epochs, lengths, tokens=3072, sampling=sampling)
    return [(epoch, [(draw.task, draw.items.tolist()) for draw in turn]) for epoch, turn in plan]


def shares(sampling: Sampling, epochs: float = 2) -> list[dict[str, float]]:
    """Return for each epoch the share of every task in its batches."""
    found = []
    for epoch in range(int(epochs)):
        names = [name for number, turn in turns(sampling, epochs) if number == epoch for name, _ in turn]
        found.append({name: names.count(name) / len(names) for name in TASKS})
    return found


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_plan_of_tasks_is_pure_and_shorter_plans_are_prefixes(sampling: Sampling) -> None:
    assert turns(sampling) == turns(sampling)
    assert turns(sampling, seed=1) != turns(sampling)
    if sampling != "annealed":  # annealed sampling depends on the number of epochs
        part, whole = turns(sampling, 1.3), turns(sampling, 3)
        assert part == whole[: len(part)]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_epoch_has_as_many_batches_as_all_tasks_together(sampling: Sampling) -> None:
    own = sum(len(plan_epoch(0, 0, lengths, tokens=3072, task=i)) for i, lengths in enumerate(TASKS.values()))
    batches = sum(len(turn) for epoch, turn in turns(sampling) if epoch == 0)
    assert abs(batches - own) < len(TASKS)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_item_occurs_once_before_any_occurs_twice(sampling: Sampling) -> None:
    for task, lengths in TASKS.items():
        seen = [row for _, turn in turns(sampling, 3) for name, rows in turn if name == task for row in rows]
        first = seen[: len(lengths)]
        assert len(set(first)) == len(first)


def test_proportional_sampling_has_every_item_once_an_epoch() -> None:
    for epoch in range(2):
        for task, lengths in TASKS.items():
            rows = [
                row
                for number, turn in turns("proportional")
                if number == epoch
                for n, some in turn
                if n == task
                for row in some
            ]
            assert sorted(rows) == list(range(len(lengths)))


def test_round_robin_alternates_the_tasks() -> None:
    assert [turn[0][0] for _, turn in turns("round_robin")][:4] == ["large", "small", "middle", "large"]
    assert all(len(turn) == 1 for _, turn in turns("round_robin"))


def test_combined_step_has_every_task() -> None:
    assert all([name for name, _ in turn] == list(TASKS) for _, turn in turns("combined"))


def test_shares_of_the_tasks() -> None:
    sizes = np.array([len(plan_epoch(0, 0, lengths, tokens=3072, task=i)) for i, lengths in enumerate(TASKS.values())], float)
    roots = np.sqrt(sizes) / np.sqrt(sizes).sum()
    assert list(shares("square_root")[0].values()) == pytest.approx(roots, abs=0.01)
    first, *_, last = shares("annealed", 3)
    assert list(first.values()) == pytest.approx(sizes / sizes.sum(), abs=0.01)
    powers = sizes**0.2
    assert list(last.values()) == pytest.approx(powers / powers.sum(), abs=0.01)


def ordered(epochs: float = 1) -> list[list[int]]:
    """Return the positions of each step's windows in the given order."""
    order = np.random.default_rng(5).permutation(len(LENGTHS))
    plan = plan_steps(1, epochs, {"main": lambda _: LENGTHS}, orders={"main": lambda _: order}, tokens=3072)
    places = np.argsort(order)
    return [places[draw.items].tolist() for _, (draw,) in plan]


def test_given_order_is_nearly_kept() -> None:
    steps = ordered()
    assert sorted(place for step in steps for place in step) == list(range(len(LENGTHS)))
    stage = -(-len(LENGTHS) // STAGES)
    stages = [{place // stage for place in step} for step in steps]
    assert all(len(numbers) == 1 for numbers in stages), "no step has windows of two stages"
    assert [number for (number,) in stages] == sorted(number for (number,) in stages)
    assert ordered(0.5) == steps[: len(ordered(0.5))]


@pytest.mark.parametrize("sampling", get_args(Sampling))
def test_given_order_is_kept_with_several_tasks(sampling: Sampling) -> None:
    lengths = {"short": lambda _: LENGTHS[:400], "long": lambda _: LENGTHS[:2000]}
    orders = {"long": lambda _: np.arange(2000)[::-1], "short": lambda _: None}
    plan = plan_steps(0, 1, lengths, orders=orders, tokens=3072, sampling=sampling)
    draws = [draw for _, turn in plan for draw in turn if draw.task == "long" and draw.task_epoch == 0]
    stages = [(1999 - int(draw.items.max())) // (2000 // STAGES) for draw in draws]
    assert len(stages) > STAGES and stages == sorted(stages)


def test_plan_with_an_empty_order() -> None:
    nothing = np.zeros(0, np.int64)
    assert plan_epoch(0, 0, nothing, tokens=10, order=nothing) == []
