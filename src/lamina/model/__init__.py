"""The network and how it runs.

`Model` joins one encoder with a mixer and a head for each task. `inference` runs a model over windows and returns numpy
arrays. `weights` copies and loads the trained weights. The rooms `answers`, `scoring` and `tasks` interpret the arrays.
"""

from lamina.model.model import Model, Task

__all__ = ["Model", "Task"]
