"""SMART: penalise outputs that change under small noise on the texts, or that change much from step to step.

Paper: Jiang et al. 2020; 002 names it as future work. With f the model on the embeddings' output x, D the `divergence`:

    smoothness:  D(f(x), f(x + d)), d the small noise that maximises it
    proximity:   D(f(x), g(x)), g the model with the moving average of its past weights (Bregman proximal point)
    loss = weight (smoothness + bregman proximity), mean over items

The noise starts as normal(0, noise). `steps` times it moves by `step` along the gradient of D, divided by the gradient's
largest absolute value in the text. It is then clipped to `radius`. g moves by a share of 1 - decay after every step.

Departures:
- All these forward passes have no dropout, so only the noise makes a difference. They are in float32.
- The gradient of D flows through both of its sides.
- The noise is clipped to a radius. The public code scales it to a largest value of 1 after the step instead. With its small
  gradients the direction is then left to chance.

The effect depends on `step`. The embeddings' output of the default encoder has a standard deviation of 0.5. There the
published 1e-3 changes the classes of eight sentences by a divergence of 3e-7, which trains nothing. 0.1 changes them by
3e-3, about as much as the public code's scaled noise (4e-3).

A training step takes about four times as long. The clean and the noisy texts both train, and the noise and the past weights
need forward passes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.errors import LaminaError
from lamina.heads.outputs import Outputs
from lamina.model import Model
from lamina.objectives.divergence import divergence
from lamina.objectives.term import Extra, Term
from lamina.utils.options import Options


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Put every module in eval mode inside the context; restore each module's mode at the end."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def detached(outputs: Outputs) -> Outputs:
    """Return the outputs without their gradients."""
    return replace(outputs, **{field.name: getattr(outputs, field.name).detach() for field in fields(outputs)})


def trained_by(model: Model, task: str) -> dict[str, Tensor]:
    """Return the trainable parameters that the task uses."""
    return {
        name: value.detach()
        for name, value in model.named_parameters()
        if value.requires_grad and (not name.startswith("tasks.") or name.startswith(f"tasks.{task}."))
    }


class Smart:
    """SMART as a term of a training step. Its memory, the average of past weights, starts with the first step."""

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
                "terms.smart: it adds noise to the embeddings, but the states of frozen layers come from a store. "
                'Fix: set cache.use = "never"'
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
        """Return the noise on `x`, [R, T, H], that moves the outputs away from `clean`. No gradient reaches a parameter."""
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
        """Do nothing: the first call creates the memory."""

    def _past(self, model: Model, batch: Batch) -> Outputs:
        """Return the outputs of the model with the average of past weights."""
        trained = trained_by(model, self.task)
        if not self._mean:
            self._mean = {name: value.clone() for name, value in trained.items()}
        self._mean = {name: value.to(trained[name].device) for name, value in self._mean.items()}
        with torch.no_grad():
            outputs: Outputs = functional_call(model, self._mean, (batch, self.task))
        return outputs

    def before_step(self, model: Model) -> None:
        """Do nothing: the memory changes after a step."""

    def after_step(self, model: Model) -> None:
        if self._mean:
            for name, value in trained_by(model, self.task).items():
                self._mean[name] = self._mean[name].to(value.device).lerp_(value, 1 - self.options.decay)

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self._mean)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._mean = {name: value.clone() for name, value in state.items()}


class SmartOptions(Options):
    """Options of SMART."""

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
