"""The protocol `Engine`: what runs a trained model on windows and returns numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from lamina.answers.sentences import ItemOutputs
from lamina.data.logits import SpanLogits
from lamina.data.windows import Windows
from lamina.utils.arrays import Floats
from lamina.utils.progress import Progress, Silent


class Engine(Protocol):
    """Runs a trained model. `progress` advances by windows."""

    @property
    def name(self) -> str:
        """The name of the engine, and its number format."""
        ...

    def spans(self, windows: Windows, task: str, progress: Progress) -> SpanLogits:
        """Return the start and end logits of every token of all windows."""
        ...

    def items(self, windows: Windows, task: str, progress: Progress) -> ItemOutputs:
        """Return the outputs of a head for every item, by their names."""
        ...

    def vectors(self, windows: Windows, task: str, progress: Progress) -> Floats:
        """Return the pooled vector of every text, [W, D]; the head must be one for sentences."""
        ...


@dataclass(frozen=True)
class EngineInference:
    """Runs an engine for one task (`tasks.kind.Infer`)."""

    engine: Engine
    task: str = "main"
    progress: Progress = field(default_factory=Silent)

    def spans(self, windows: Windows) -> SpanLogits:
        """Return the logits of every token of all windows."""
        self.progress.start("answering", len(windows))
        return self.engine.spans(windows, self.task, self.progress)

    def items(self, windows: Windows) -> ItemOutputs:
        """Return the outputs of the head for every item."""
        self.progress.start("predicting", len(windows))
        return self.engine.items(windows, self.task, self.progress)
