"""The network and how it is run.

`Model` joins one encoder with a mixer and a head for each task. `inference` runs a model over windows and returns numpy arrays;
`weights` copies and loads what a model trains. What the arrays mean is decided in `answers`, `scoring` and `tasks`.
"""

from lamina.model.model import Model, Task

__all__ = ["Model", "Task"]
