from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.config.train_options import TrainOptions
from lamina.data.squad import to_squad
from lamina.training import cost_estimate as inspection
from lamina.training.cost_estimate import schedule_points
from lamina.training.schedules import constant, cosine, cosine_restarts, exponential, linear, share_of_peak
from tests import tiny
from tests.command import lamina

NAMES = get_args(TrainOptions.model_fields["schedule"].annotation)


def test_without_warmup_the_rate_falls_from_the_highest() -> None:
    assert [linear(progress, 0.0) for progress in (0.0, 0.25, 1.0)] == [1.0, 0.75, 0.0]


@given(st.floats(0, 1), st.floats(0, 0.99))
def test_linear_is_between_0_and_1_and_highest_after_warmup(progress: float, warmup: float) -> None:
    rate = linear(progress, warmup)
    assert 0 <= rate <= 1
    later = min(1.0, progress + 1e-3)
    if later <= warmup:
        assert linear(later, warmup) >= rate
    if progress >= warmup:
        assert linear(later, warmup) <= rate
        assert rate == pytest.approx((1 - progress) / (1 - warmup))


@given(st.sampled_from(NAMES), st.floats(0, 1), st.floats(0, 0.99), st.integers(1, 5), st.floats(0.1, 1), st.floats(0.1, 9))
def test_all_schedules_have_the_same_warmup_and_stay_between_0_and_1(
    name: Any, progress: float, warmup: float, cycles: int, decay: float, epochs: float
) -> None:
    options = TrainOptions(schedule=name, warmup=warmup, cycles=cycles, decay=decay)
    rate = share_of_peak(options, progress, epochs)
    assert 0 <= rate <= 1
    if progress < warmup and name != "exponential":  # its epochs may end within the warm-up
        assert rate == progress / warmup


@given(st.floats(0, 1), st.floats(0, 0.99))
def test_schedules_equal_their_formulas(progress: float, warmup: float) -> None:
    rest = max(0.0, (progress - warmup) / (1 - warmup))
    if progress >= warmup:
        assert cosine(progress, warmup) == pytest.approx(math.cos(math.pi * rest / 2) ** 2, abs=1e-9)
        assert constant(progress, warmup) == 1
        assert exponential(progress, warmup, 0.96, 1) == 1
    assert cosine_restarts(progress, warmup, 1) == cosine(progress, warmup)


def test_restarts_begin_at_the_highest_rate() -> None:
    for cycle in range(3):
        begin = 0.25 + 0.25 * cycle
        assert cosine_restarts(begin, 0.25, 3) == 1
        assert cosine_restarts(begin + 0.125, 0.25, 3) == pytest.approx(0.5)
        assert cosine_restarts(begin + 0.2499, 0.25, 3) < 1e-4
    assert cosine_restarts(1.0, 0.25, 3) == 0


def test_exponential_falls_at_the_end_of_an_epoch() -> None:
    rates = [exponential(progress, 0.0, 0.96, 10) for progress in (0.0, 0.099, 0.101, 0.95, 1.0)]
    assert rates == pytest.approx([1, 1, 0.96, 0.96**9, 0.96**9])
    assert exponential(0.05, 0.1, 0.5, 20) == pytest.approx(0.5 * 0.5), "warm-up and decay multiply"


def test_exponential_may_fall_within_an_epoch() -> None:
    """Compare ten falls in one epoch with those of ten epochs."""
    within = TrainOptions(schedule="exponential", decay_every=0.1, warmup=0.0)
    ten = TrainOptions(schedule="exponential", warmup=0.0)
    moments = [step / 64 for step in range(65)]
    assert [share_of_peak(within, p, 1) for p in moments] == pytest.approx([share_of_peak(ten, p, 10) for p in moments])
    assert share_of_peak(within, 0.99, 1) == pytest.approx(0.96**9)


STEPS = 40


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda p: linear(p, 0.25), lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: min(s / 10, (40 - s) / 30))),
        (lambda p: cosine(p, 0.0), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS)),
        (lambda p: cosine_restarts(p, 0.0, 4), lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, STEPS // 4)),
        (lambda p: exponential(p, 0.0, 0.96, STEPS), lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.96)),
        (lambda p: constant(p, 0.0), lambda o: torch.optim.lr_scheduler.ConstantLR(o, 1.0)),
    ],
    ids=["linear", "cosine", "cosine_restarts", "exponential", "constant"],
)
def test_schedules_equal_those_of_torch(ours: Any, theirs: Any) -> None:
    """Compare a run of STEPS steps. For exponential, these are STEPS epochs of one step."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = theirs(optimizer)
    for step in range(STEPS):
        # exactly between two epochs the rounding of a product decides, so a hair later
        assert ours(step / STEPS + 1e-12) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-6), step
        optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some torch schedulers warn about their own arguments
            scheduler.step()


# ---- drawn by `lamina inspect`


def test_schedule_points_of_a_plot() -> None:
    options = TrainOptions(lr=1e-3, warmup=0.5, schedule="linear")
    assert schedule_points(options, epochs=2, count=5) == [
        {"progress": progress, "lr": pytest.approx(rate)}
        for progress, rate in [(0.0, 0.0), (0.25, 5e-4), (0.5, 1e-3), (0.75, 5e-4), (1.0, 0.0)]
    ]


@pytest.mark.parametrize("name", NAMES)
def test_inspect_draws_the_schedule(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "matmul_peak", lambda: 1e10)  # measuring it is slow
    data = tmp_path / "few.json"
    data.write_text(json.dumps(to_squad(tiny.corpus(1))))
    changes = [
        "encoder.model=tiny",
        "encoder.pretrained=false",
        f"data.train={data}",
        "data.dev=none",
        "data.holdout=0",
        f"train.schedule={name}",
    ]
    changes.append("train.lr=0.5")
    command = ["inspect", "quickstart", *(word for change in changes for word in ("--set", change)), "--threads", "1"]
    drawn = lamina(*command, "--plot-schedule")
    assert drawn.code == 0, drawn.err
    picture = drawn.out[drawn.out.index(f"schedule: {name}") :].splitlines()
    assert "0.5 ┤" in picture[1]
    assert any("█" in line for line in picture)
    assert all(len(line) <= 80 for line in picture)
    if name == "linear":
        points = json.loads(lamina(*command, "--plot-schedule", "--json").out)["schedule"]
        assert points[0] == {"progress": 0.0, "lr": 0.0}
        assert points[-1] == {"progress": 1.0, "lr": 0.0}
        assert "schedule" not in json.loads(lamina(*command, "--json").out)
