"""Counts and times of the service, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_JOBS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_Labels = tuple[tuple[str, str], ...]


class Counter:
    """A number that grows, one for each set of labels."""

    def __init__(self, name: str, help: str) -> None:
        self.name, self.help = name, help
        self._values: dict[_Labels, float] = defaultdict(float)

    def add(self, amount: float = 1.0, **labels: str) -> None:
        self._values[tuple(sorted(labels.items()))] += amount

    def lines(self) -> Iterator[str]:
        yield from (f"# HELP {self.name} {self.help}", f"# TYPE {self.name} counter")
        for labels, value in sorted(self._values.items()) or [((), 0.0)]:
            yield f"{self.name}{_braces(dict(labels))} {value:g}"


class Histogram:
    """How often values fall below each bound, one for each set of labels."""

    def __init__(self, name: str, help: str, bounds: tuple[float, ...] = _SECONDS) -> None:
        self.name, self.help, self._bounds = name, help, bounds
        self._counts: dict[_Labels, list[int]] = defaultdict(lambda: [0] * (len(bounds) + 1))
        self._sums: dict[_Labels, float] = defaultdict(float)

    def observe(self, value: float, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        self._counts[key][bisect_left(self._bounds, value)] += 1
        self._sums[key] += value

    def lines(self) -> Iterator[str]:
        yield from (f"# HELP {self.name} {self.help}", f"# TYPE {self.name} histogram")
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*map("{:g}".format, self._bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{self.name}_bucket{_braces(dict(labels) | {'le': bound})} {total}"
            yield f"{self.name}_sum{_braces(dict(labels))} {self._sums[labels]:g}"
            yield f"{self.name}_count{_braces(dict(labels))} {total}"


class Metrics:
    """What the service counts. Paths are those of the API, so that the number of labels is bounded."""

    def __init__(self) -> None:
        self.requests = Counter("lamina_requests_total", "Requests by path, method and status.")
        self.seconds = Histogram("lamina_request_seconds", "Seconds from the first byte of a request to its reply.")
        self.batches = Histogram("lamina_batch_requests", "Requests that were computed together.", _JOBS)
        self.computing = Histogram("lamina_batch_seconds", "Seconds to compute a batch.")
        self.tokens = Counter("lamina_tokens_total", "Tokens that were computed, estimated.")
        self.dropped = Counter("lamina_dropped_total", "Requests whose computation was given up.")

    def batch(self, jobs: int, tokens: int, seconds: float) -> None:
        """Count a batch."""
        self.batches.observe(jobs)
        self.computing.observe(seconds)
        self.tokens.add(tokens)

    def text(self, waiting: int) -> str:
        """Return all numbers. `waiting` is the number of requests in the queue."""
        gauge = (
            "# HELP lamina_open_requests Requests that wait or are computed.",
            "# TYPE lamina_open_requests gauge",
            f"lamina_open_requests {waiting}",
        )
        all_of = (self.requests, self.seconds, self.batches, self.computing, self.tokens, self.dropped)
        return "\n".join([*(line for one in all_of for line in one.lines()), *gauge]) + "\n"


def _braces(labels: Mapping[str, str]) -> str:
    escaped = {name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, value in labels.items()}
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}" if labels else ""
