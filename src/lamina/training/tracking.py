"""Send the metrics of a run to a dashboard while it trains: `scalars` for any tracker, `TensorBoard` for that one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from lamina.utils.extras import needs

FOLDER = "tensorboard"  # in the run folder


def scalars(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of an entry of metrics.jsonl by names with slashes, without its step and epoch.

    >>> scalars({"step": 3, "loss": 0.5, "curve": {"dev": {"f1": 60.0}}})
    {'loss': 0.5, 'curve/dev/f1': 60.0}
    """
    return {"/".join(path): value for path, value in _leaves(entry) if path not in (("step",), ("epoch",), ("epochs",))}


def _leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from _leaves(one, (*path, str(name)))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, float(value)


class TensorBoard:
    """``with TensorBoard(run) as on_metrics``: pass it to `lamina.train`. It writes into the folder tensorboard of the run.

    Args:
        run: The run folder.

    Raises:
        LaminaError: TensorBoard is not installed.
    """

    def __init__(self, run: Path) -> None:
        with needs("--track tensorboard", "tensorboard", extra="tracking"):
            import_module("tensorboard")
        self._module: Any = import_module("torch.utils.tensorboard")
        self._folder = run / FOLDER
        self._writer: Any = None

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._writer is not None:
            self._writer.close()

    def __call__(self, entry: dict[str, Any]) -> None:
        if self._writer is None:  # the run folder must not exist before training
            self._writer = self._module.SummaryWriter(str(self._folder))
        for name, value in scalars(entry).items():
            self._writer.add_scalar(name, value, entry["step"])
