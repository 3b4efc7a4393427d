"""Self-distillation: the model learns from the outputs of its own past weights, besides the labels.

Paper: Lee and Kim (004, eq. 1 and 2), after Xu et al. 2020 (SDA, SDV). w_t are the trained parameters after step t, w_0 the
initial ones. f is the model in eval mode and K is the `window`. While the model has the parameters w_t, the teacher predicts

    sda:  f(x; mean of w_(t-1), ..., w_(t-K))
    sdv:  the mean of f(x; w_(t-1)), ..., f(x; w_(t-K)), logit by logit: K forward passes
    ema:  f(x; e_t), e_1 = w_1, e_(t+1) = d e_t + (1 - d) w_(t+1) with d = min(decay, (1 + t) / (10 + t))

The windows of sda and sdv end one step before the model, as in the paper's equations. So K = 1 is the model of the step
before. The average of ema includes the current parameters, as in Xu et al.'s code.

    loss = weight D(teacher, model), mean over items

With `mse`, D is the squared difference of the logits, mean over classes or over the allowed positions of the window. With
`kl`, D is KL(teacher, model). Spans have half the sum of D over start and end. Scores and cosines have no distribution, so
D is their squared difference either way. The teacher has no dropout and no gradient. Its forward passes are in float32.

In the first K steps fewer than K past models exist, and the term is 0. It starts with step K + 1 (`ema`: step 2), or
after `start` steps if that is later. So no teacher averages fewer than K models, and w_0 is the oldest of the first one.

Departures: the paper's public code compares starts only and keeps dropout in the teachers of SDV. Its windows include the
current parameters. Its SDA teacher is close to zero: a fifth of the change of the parameters in K steps. It is computed in
each of K steps, then unchanged for K steps. `paper_code` does all of this, to reproduce the paper's table.

Only the trained parameters that the task reads are kept; batch norms have their current values. The default encoder trains
22.7 M of them, 91 MB. With K = 5, SDV keeps 454 MB and SDA, with the sum, 545 MB, in memory and in every checkpoint. Frozen,
with adapters of size 64 in all layers, it trains 0.60 M: 12 MB and 14 MB. EMA keeps one copy. Every task with distillation
keeps its own copies of the encoder's parameters. SDA and EMA cost one forward pass, SDV costs K. A step of the default
recipe takes 1.4 times as long with SDA and 2.4 times with SDV.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from typing import Any, ClassVar, Final, Literal, Protocol

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor
from torch.func import functional_call

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.errors import LaminaError
from lamina.heads.outputs import Outputs, SpanOutputs
from lamina.model import Model
from lamina.model.weights import Weights
from lamina.objectives.divergence import Measure, divergence, kl, mean_square
from lamina.objectives.smart import trained_by, without_dropout
from lamina.objectives.span import SpanLossOptions
from lamina.objectives.term import Extra, Term
from lamina.utils.options import Options

MEASURES: dict[str, Measure] = {"mse": mean_square, "kl": kl}


def mean_of(outputs: Sequence[Outputs]) -> Outputs:
    """Return the mean of several models' outputs, value by value. All have the same mask of allowed positions."""
    first = outputs[0]
    means: dict[str, Tensor] = {}
    for field in fields(first):
        value: Tensor = getattr(first, field.name)
        averaged = value.is_floating_point()
        means[field.name] = torch.stack([getattr(one, field.name) for one in outputs]).mean(0) if averaged else value
    return type(first)(**means)


# ---- parameters of past steps


class Teacher(Protocol):
    """Parameters of past steps, kept under names, and the models that they form."""

    steps: int  # number of steps added so far
    kept: dict[str, Weights]

    @property
    def needs(self) -> int: ...

    def add(self, weights: Weights) -> None: ...

    def models(self) -> list[Weights]: ...


class LastSteps:
    """SDV: the parameters of each of the last `window` steps, in a ring; the next step replaces the oldest."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.steps = 0
        self.kept: dict[str, Weights] = {}

    @property
    def needs(self) -> int:
        """Return the number of steps that must be added before `models` works."""
        return self.window

    @property
    def place(self) -> str:
        """Return the name under which the next step is kept."""
        return str(self.steps % self.window)

    def add(self, weights: Weights) -> None:
        if self.place in self.kept:
            for name, value in self.kept[self.place].items():
                value.copy_(weights[name])
        else:
            self.kept[self.place] = {name: value.clone() for name, value in weights.items()}
        self.steps += 1

    def models(self) -> list[Weights]:
        return [self.kept[str(place)] for place in range(self.window)]


class MeanOfLastSteps(LastSteps):
    """SDA: the mean of the last `window` steps, computed from their sum.

    A step adds the newest parameters to the sum and subtracts the oldest; both operations round. After each round of the ring
    the sum is computed anew, so it never holds more than 2 * `window` roundings.
    """

    def add(self, weights: Weights) -> None:
        if "sum" in self.kept:
            oldest = self.kept[self.place]
            for name, value in self.kept["sum"].items():
                value.sub_(oldest[name]).add_(weights[name])
        super().add(weights)
        if self.steps % self.window == 0:
            first, *others = super().models()
            total = {name: value.clone() for name, value in first.items()}
            for other in others:
                for name, value in total.items():
                    value.add_(other[name])
            self.kept["sum"] = total

    def models(self) -> list[Weights]:
        return [{name: value / self.window for name, value in self.kept["sum"].items()}]


class PaperDifference(LastSteps):
    """The teacher that the paper's public code uses instead of SDA's mean, only to reproduce the paper."""

    DIVISOR: Final = 5  # for every window

    @property
    def needs(self) -> int:
        return self.window + 1

    def add(self, weights: Weights) -> None:
        if self.steps // self.window % 2:
            oldest = self.kept[self.place]
            self.kept["teacher"] = {name: (value - oldest[name]) / self.DIVISOR for name, value in weights.items()}
        super().add(weights)

    def models(self) -> list[Weights]:
        return [self.kept["teacher"]]


class MovingMean:
    """EMA: an exponential moving average of all past steps, which moves faster in the first steps."""

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.kept: dict[str, Weights] = {}

    @property
    def needs(self) -> int:
        return 1

    def add(self, weights: Weights) -> None:
        if not self.kept:
            self.kept["mean"] = {name: value.clone() for name, value in weights.items()}
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for name, value in self.kept["mean"].items():
            value.lerp_(weights[name], 1 - decay)
        self.steps += 1

    def models(self) -> list[Weights]:
        return [self.kept["mean"]]


# ---- the term


class Distil:
    """Self-distillation as a term of a training step, with the teacher as its memory.

    A teacher of past steps gets the parameters before the optimiser changes them, so it never has those of the model itself.
    The teachers of `ema` and `paper_code` include them, so they get the parameters after each step.
    """

    name = "distil"

    def __init__(self, options: DistilOptions, task: str, teacher: Teacher) -> None:
        self.options = options
        self.task = task
        self.teacher = teacher
        self.start = options.start
        self.includes_current = options.teacher == "ema" or options.paper_code
        self._counter = "steps" if self.includes_current else "past_steps"  # its name in checkpoints

    @property
    def waits(self) -> int:
        return max(self.start, self.teacher.needs)

    def rehearse(self, model: Model) -> None:
        while self.teacher.steps < self.teacher.needs:
            self._add(model)
        self.start = 0

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"distil.items": float(len(batch.ids) // batch.sides)}

    def __call__(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor:
        if self.teacher.steps < self.waits:
            return torch.zeros((), device=batch.ids.device)
        taught = self.taught(model, batch)
        if self.options.paper_code and isinstance(taught, SpanOutputs) and isinstance(outputs, SpanOutputs):
            apart = mean_square(taught.start, outputs.start, outputs.allowed)
        else:
            apart = divergence(taught, outputs, MEASURES[self.options.loss])
        return self.options.weight * apart.sum() / totals["distil.items"]

    @torch.no_grad()
    def taught(self, model: Model, batch: Batch) -> Outputs:
        """Return the teacher's outputs for a batch."""
        self._bring(batch.ids.device)
        with nullcontext() if self.options.paper_code and self.options.teacher == "sdv" else without_dropout(model):
            return mean_of([functional_call(model, weights, (batch, self.task)) for weights in self.teacher.models()])

    def before_step(self, model: Model) -> None:
        if not self.includes_current:
            self._add(model)

    def after_step(self, model: Model) -> None:
        if self.includes_current:
            self._add(model)

    def _add(self, model: Model) -> None:
        """Add the model's parameters to the teacher."""
        weights = trained_by(model, self.task)
        self._bring(next(model.parameters()).device)
        self.teacher.add(weights)

    def _bring(self, device: torch.device) -> None:
        """Move the teacher to the model's device; a checkpoint is loaded on the CPU."""
        teacher = self.teacher
        teacher.kept = {part: {name: value.to(device) for name, value in w.items()} for part, w in teacher.kept.items()}

    def state_dict(self) -> dict[str, Tensor]:
        kept = {f"{part}.{name}": value for part, weights in self.teacher.kept.items() for name, value in weights.items()}
        return kept | {self._counter: torch.tensor(self.teacher.steps)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        if self._counter not in state:
            raise LaminaError(
                "terms.distil: the checkpoint is from an older version, whose teacher included the current weights. "
                "Fix: delete the checkpoint to train from the start"
            )
        self.teacher.steps = int(state[self._counter])
        self.teacher.kept = {}
        for key, value in state.items():
            part, dot, name = key.partition(".")
            if dot:
                self.teacher.kept.setdefault(part, {})[name] = value.clone()


class DistilOptions(Options):
    """Options of self-distillation."""

    teacher: Literal["sda", "sdv", "ema"] = "sda"
    """Teacher: mean of past weights (`sda`), mean of past outputs (`sdv`), or moving average of weights (`ema`)."""
    window: int = Field(default=5, ge=1)
    """Number of past steps that `sda` and `sdv` average, without the current one."""
    weight: float = Field(default=1.0, ge=0)
    """Factor of the term; 0 switches it off and saves its memory."""
    start: int = Field(default=0, ge=0)
    """Number of steps before the term starts; it also waits until `window` past steps exist."""
    loss: Literal["mse", "kl"] = "mse"
    """Distance between the outputs of model and teacher."""
    decay: float = Field(default=0.995, ge=0, lt=1)
    """Decay of the moving average of `ema` after many steps, from 0 to below 1."""
    paper_code: bool = False
    """Compute `sda` and `sdv` of spans as the paper's public code does."""

    heads: ClassVar[tuple[str, ...]] = ()
    heads_of_paper_code: ClassVar[tuple[str, ...]] = SpanLossOptions.heads

    @field_validator("teacher", mode="before")
    @classmethod
    def _of_this_run(cls, value: Any) -> Any:
        if value not in ("sda", "sdv", "ema"):
            what = "the teachers of self-distillation are sda, sdv and ema"
            raise ValueError(f"{what}. Fix: choose one of them; to learn from finished runs, name them in terms.teacher.runs")
        return value

    @model_validator(mode="after")
    def _as_in_the_paper(self) -> DistilOptions:
        if self.paper_code and (self.teacher == "ema" or self.loss != "mse"):
            what = "paper_code is for the teachers sda and sdv with the loss mse; the paper has no others"
            raise ValueError(f'{what}. Fix: set teacher = "sda" or "sdv" and loss = "mse", or remove paper_code')
        return self

    @property
    def extra(self) -> Extra:
        copies = {"sda": self.window + 1, "sdv": self.window, "ema": 1}
        return Extra(forwards=self.window if self.teacher == "sdv" else 1, copies=copies[self.teacher])

    def build(self, task: str, labels: Labels, objective: Term) -> Distil:
        return Distil(self, task, self._teacher())

    def _teacher(self) -> Teacher:
        if self.teacher == "ema":
            return MovingMean(self.decay)
        if self.teacher == "sdv":
            return LastSteps(self.window)
        return PaperDifference(self.window) if self.paper_code else MeanOfLastSteps(self.window)
