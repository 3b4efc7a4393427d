"""Show how far a study is: a table that changes on a terminal, and lines in a log or a pipe."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from lamina.experiments.studies.run_study import Status

if TYPE_CHECKING:
    from rich.table import Table


class ShownStudy:
    """``with ShownStudy() as watch``: pass `watch` to `study`. Everything goes to standard error."""

    def __enter__(self) -> ShownStudy:
        self._live = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, status: Status) -> None:
        if self._live is None:
            if status.line:
                print(status.line, file=sys.stderr, flush=True)
            return
        self._live.update(status_table(status))
        if status.line:
            self._live.console.print(status.line, highlight=False, markup=False)


def status_table(status: Status) -> Table:
    """Return the table of a status: each variant with its finished, running, failed and other seeds."""
    from rich.table import Table

    title = f"{status.plan.study.title}: {len(status.done)} of {len(status.plan.jobs)} jobs finished, {len(status.left)} left"
    table = Table(title=title)
    for name in ("variant", "done", "running", "left", "failed"):
        table.add_column(name, justify="left" if name in ("variant", "running") else "right")
    for variant in status.plan.variants:
        jobs = [one.job for one in status.plan.results_of(variant)]
        done, failed = sum(job in status.done for job in jobs), sum(job in status.failed for job in jobs)
        doing = [status.running[job] for job in jobs if job in status.running]
        text = ", ".join(f"{one.stage} {100 * one.share:.0f}%" for one in doing)
        table.add_row(variant, str(done), text, str(len(jobs) - done - failed), str(failed) if failed else "")
    for key in [key for key in status.running if all(one.job != key for one in status.plan.results)]:
        one = status.running[key]
        table.add_row(key, "", f"{one.stage} {100 * one.share:.0f}%", "", "")
    return table
