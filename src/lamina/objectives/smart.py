"""SMART: penalises outputs that change with slight noise on the texts, or that change much from step to step.

Paper: Jiang et al. 2020; 002 names it as future work. With f the model on the embeddings' output x, D the `divergence`:

    smoothness:  D(f(x), f(x + d)), d the small noise that makes it greatest
    proximity:   D(f(x), g(x)), g the mean of the model's weights over past steps (Bregman proximal point)
    loss = weight (smoothness + bregman proximity), mean over items

The noise starts as normal(0, noise) and climbs: `steps` times it moves by `step` along the gradient of D, divided by the
gradient's largest value in the text, and is cut to `radius`. g moves by a share of 1 - decay after every step.

Departures: all of these forwards are without dropout, so that what differs is the noise alone, and in float32. D's gradient
flows through both of its sides. The noise is cut to a radius and not, as in the public code, scaled to one of 1 after the
step, which with that code's small gradients leaves the direction to chance.

How much it does depends on `step`. On the default encoder, whose embeddings' output has a standard deviation of 0.5, the
published 1e-3 moves the classes of eight sentences by a divergence of 3e-7, which trains nothing; 0.1 moves them by 3e-3, about
as much as the public code's scaled noise (4e-3). It makes a step of training about four times as long: the clean and the
disturbed texts both train, and the noise and the past take forwards of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch.func import functional_call

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.errors import LaminaError
from lamina.heads.outputs import Outputs
from lamina.model import Model
from lamina.objectives.divergence import divergence
from lamina.objectives.term import Extra, Term


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Put every module in eval mode; afterwards each has its former mode again."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def detached(outputs: Outputs) -> Outputs:
    return replace(outputs, **{field.name: getattr(outputs, field.name).detach() for field in fields(outputs)})


def trained_by(model: Model, task: str) -> dict[str, Tensor]:
    """Return the trainable parameters that the task uses."""
    return {
        name: value.detach()
        for name, value in model.named_parameters()
        if value.requires_grad and (not name.startswith("tasks.") or name.startswith(f"tasks.{task}."))
    }


class Smart:
    """The term, with the mean of past weights as its memory; there is none until the first step that asks for it."""

    name = "smart"

    def __init__(self, options: SmartOptions, task: str) -> None:
        self.options = options
        self.task = task
        self._mean: dict[str, Tensor] = {}

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"smart.items": float(len(batch.ids) // batch.sides)}

    def __call__(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor:
        if batch.states is not None:
            raise LaminaError(
                "terms.smart disturbs the embeddings, but the states of frozen layers above them come from a store: set "
                'cache.use = "never"'
            )
        with without_dropout(model):
            x = model.encoder.embed(batch.ids, batch.type_ids)  # [R, T, H]
            clean = model(batch, self.task, x=x)
            noise = self.worst_noise(model, batch, x.detach(), detached(clean))
            loss = divergence(clean, model(batch, self.task, x=x + noise)).sum()
            if self.options.bregman:
                loss = loss + self.options.bregman * divergence(clean, self._past(model, batch)).sum()
        return self.options.weight * loss / totals["smart.items"]

    def worst_noise(self, model: Model, batch: Batch, x: Tensor, clean: Outputs) -> Tensor:
        """[R, T, H] the noise on `x` that drives the outputs away from `clean`. No gradient reaches a parameter."""
        options = self.options
        noise = options.noise * torch.randn_like(x)
        for _ in range(options.steps):
            noise.requires_grad_()
            apart = divergence(model(batch, self.task, x=x + noise), clean).sum()
            (slope,) = torch.autograd.grad(apart, noise)
            largest = slope.abs().amax((1, 2), keepdim=True)  # [R, 1, 1]
            noise = noise.detach() + options.step * slope / largest.clamp_min(torch.finfo(slope.dtype).tiny)
            if options.radius is not None:
                noise = noise.clamp(-options.radius, options.radius)
        return noise

    # ---- the memory

    @property
    def waits(self) -> int:
        return 0

    def rehearse(self, model: Model) -> None:
        """The first call makes the memory."""

    def _past(self, model: Model, batch: Batch) -> Outputs:
        """Return the outputs of the mean of past weights."""
        trained = trained_by(model, self.task)
        if not self._mean:
            self._mean = {name: value.clone() for name, value in trained.items()}
        self._mean = {name: value.to(trained[name].device) for name, value in self._mean.items()}
        with torch.no_grad():
            outputs: Outputs = functional_call(model, self._mean, (batch, self.task))
        return outputs

    def after_step(self, model: Model) -> None:
        if self._mean:
            for name, value in trained_by(model, self.task).items():
                self._mean[name] = self._mean[name].to(value.device).lerp_(value, 1 - self.options.decay)

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self._mean)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._mean = {name: value.clone() for name, value in state.items()}


class SmartOptions(BaseModel):
    """`radius`: no value of the noise is greater; None for as far as the steps lead."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    heads: ClassVar[tuple[str, ...]] = ()
    weight: float = Field(default=1.0, ge=0)
    """Factor of the term; 0 switches it off."""
    noise: float = Field(default=1e-5, gt=0)
    """Standard deviation of the initial noise on the embeddings."""
    step: float = Field(default=0.1, gt=0)
    """Size of a gradient step of the noise; the published 1e-3 does not change the outputs of the default encoder."""
    steps: int = Field(default=1, ge=1)
    """Number of gradient steps of the noise."""
    radius: float | None = Field(default=None, gt=0)
    """Largest absolute value of the noise; without it, the noise is not bounded."""
    bregman: float = Field(default=1.0, ge=0)
    """Factor of the proximity term beside the smoothness term; 0 switches it off."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """Decay of the moving average of past weights, from 0 to below 1."""

    @property
    def extra(self) -> Extra:
        near = int(self.bregman > 0)
        return Extra(forwards=near, passes=self.steps + 2, copies=near)

    def build(self, task: str, labels: Labels, objective: Term) -> Smart:
        return Smart(self, task)
