"""The settings of a trained model that a prediction needs, read without torch.

`RecipeView` has some fields of a recipe, under the names that they have there. The kinds of task read no others to predict and
to score. What a recipe does not store, such as the kind of a head, is in the manifest of the exported model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lamina.answers.decode import AnswerOptions
from lamina.config.data_options import DataOptions
from lamina.data.windows import WindowOptions
from lamina.errors import LaminaError, first_line


class _View(BaseModel):
    """A part of a recipe; fields that are not listed are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class HeadView(_View):
    """The options of a head that turn its outputs into predictions. `kind` and `sides` are those of its class."""

    type: str
    kind: str
    sides: int = 1
    aggregate: Literal["min", "paper_max"] = "min"
    paper_sigmoid: bool = False
    map: Literal["none", "bins", "cut"] = "none"


class ObjectiveView(_View):
    type: str


class TaskView(_View):
    data: DataOptions
    head: HeadView
    objective: ObjectiveView


class TrainView(_View):
    scorer: Literal["official", "bertvision_legacy", "korquad"] = "official"


class RecipeView(_View):
    """The part of a recipe that predictions and scores need."""

    tasks: dict[str, TaskView]
    window: WindowOptions = WindowOptions()
    answer: AnswerOptions = AnswerOptions()
    train: TrainView = TrainView()


def read_view(values: Any, heads: Mapping[str, Mapping[str, Any]], where: str) -> RecipeView:
    """Return the view of a recipe.

    Args:
        values: The content of recipe.json.
        heads: The kind and the sides of the head of each task, from the manifest.
        where: The file, for messages.

    Raises:
        LaminaError: The values are not those of a recipe.
    """
    try:
        tasks = {name: {**task, "head": {**task["head"], **heads[name]}} for name, task in values["tasks"].items()}
        return RecipeView.model_validate({**values, "tasks": tasks})
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        reason = first_line(error)
        raise LaminaError(f"{where}: is not the recipe of a model ({reason}). Fix: copy or export the model again") from None
