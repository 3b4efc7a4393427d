"""Measure the service against the library: `lamina serve` as a second process on loopback, with the reader in the package.

- clients-32: questions a second of 32 clients, each with one question at a time, against the library with all questions at once
- one-client: the same of one client, against `Reader.answer` one by one
- p99-at-70%: the 99th percentile of the seconds of a request over their median, at 70% of the rate of 32 clients
- memory: the memory of the service after 4 times that rate, over the memory before. Each accepted answer is compared with the
  library's, and a wrong one ends the benchmark with an error

    python benchmarks/serving.py
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import numpy as np

import lamina
from common import Rates, Side, parser, print_ratio, print_table, read_examples, take_turns, use_threads
from lamina.data.examples import Example
from lamina.data.splits import sample

CLIENTS = 32
LOAD, OVERLOAD = 0.7, 4.0  # shares of the rate of 32 clients
WARM_UP = 8  # questions
AT_ONCE = 700  # requests that wait at most; the service refuses some of them


class Client:
    """A connection that stays open, with one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def answer(self, example: Example) -> tuple[int, str | None]:
        """Return the status and the answer to a question. Try again if the service had closed the idle connection."""
        reused = self._streams is not None
        try:
            return await self._answer(example)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            begun = isinstance(error, asyncio.IncompleteReadError) and error.partial
            if begun or not reused:
                raise
            self.close()
            return await self._answer(example)

    async def _answer(self, example: Example) -> tuple[int, str | None]:
        body = json.dumps({"question": example.question, "context": example.context}).encode()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = (
            f"POST /answer HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        headers = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = re.search(r"content-length: (\d+)", headers)
        content = json.loads(await reader.readexactly(int(length[1]) if length else 0))
        return int(headers.split()[1]), content.get("answer")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def main() -> None:
    options = parser(__doc__ or "", questions=256, data=["squad2-dev-cs224n"], repeats=3)
    options.add_argument("--seconds", type=float, default=30.0, help="seconds at 70%% load (default %(default)s)")
    options.add_argument("--overload", type=float, default=180.0, help="seconds at 4 times the load (default %(default)s)")
    given = options.parse_args()
    use_threads(given.threads)
    examples = sample(read_examples(given.data, given.questions), given.questions, seed=0)
    random.Random(0).shuffle(examples)  # neighbours in the file share a text, which may be long
    reader = lamina.load()
    with served(given.threads) as (port, process):
        asyncio.run(answered(port, examples[:WARM_UP], clients=2))
        reader.answer(examples[0].question, examples[0].context)
        few = examples[: max(1, len(examples) // 4)]
        sides: dict[str, Side] = {
            "service, 32 clients": lambda _: asyncio.run(answered(port, examples, CLIENTS)),
            "library, all at once": partial(at_once, reader, examples),
            "service, one client": lambda _: asyncio.run(answered(port, few, 1)),
            "library, one by one": partial(one_by_one, reader, few),
        }
        rates = take_turns(sides, given.repeats)
        print(f"{len(examples)} questions, {given.threads} threads")
        print_table(rates, "questions a second")
        capacity = float(np.median(rates["service, 32 clients"]))
        times = asyncio.run(at_load(port, examples, LOAD * capacity, given.seconds))
        before = memory(process.pid)
        expected = [reader.answer(example.question, example.context).text for example in few]
        asyncio.run(overloaded(port, few, expected, OVERLOAD * capacity, given.overload))
        sizes: Rates = {"memory before": [before], "memory after": [memory(process.pid)]}
    print_table(times, "milliseconds")
    print_table(sizes, "megabytes")
    print_ratio("clients-32", rates, "service, 32 clients", "library, all at once")
    print_ratio("one-client", rates, "service, one client", "library, one by one")
    print_ratio("p99-at-70%", times, "p99", "p50")
    print_ratio("memory", sizes, "memory after", "memory before")


@contextmanager
def served(threads: int) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Yield the port and the process of a service whose model is loaded."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w+", encoding="utf-8") as log:
        words = ["serve", "--port", "0", "--threads", str(threads), "--project", f"{folder}/project"]
        process = subprocess.Popen([sys.executable, "-m", "lamina", *words], stderr=log, text=True, cwd=folder)
        try:
            while not (found := re.search(r"ready at http://localhost:(\d+)/", Path(log.name).read_text(encoding="utf-8"))):
                if process.poll() is not None:
                    raise SystemExit(Path(log.name).read_text(encoding="utf-8"))
                time.sleep(0.2)
            yield int(found[1]), process
        finally:
            process.terminate()
            process.wait()


def at_once(reader: lamina.Reader, examples: Sequence[Example], _: int) -> float:
    began = time.perf_counter()
    reader.predict(examples)
    return len(examples) / (time.perf_counter() - began)


def one_by_one(reader: lamina.Reader, examples: Sequence[Example], _: int) -> float:
    """Return one over the median of the seconds of a question."""
    return 1 / float(np.median([timed(partial(reader.answer, e.question, e.context)) for e in examples]))


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


async def answered(port: int, examples: Sequence[Example], clients: int) -> float:
    """Return the questions a second of some clients; of one client, one over the median of the seconds of a question."""
    waiting, seconds = iter(examples), list[float]()

    async def client() -> None:
        connection = Client(port)
        for example in waiting:
            began = time.perf_counter()
            status, _ = await connection.answer(example)
            assert status == 200
            seconds.append(time.perf_counter() - began)
        connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return 1 / float(np.median(seconds)) if clients == 1 else len(examples) / (time.perf_counter() - began)


async def in_time(rate: float, seconds: float, ask: Callable[[int], Awaitable[None]]) -> None:
    """Call `ask` with 0, 1, 2 and so on at a rate, without waiting for the replies."""
    began, tasks = time.perf_counter(), set[asyncio.Future[None]]()
    for number in range(max(1, int(rate * seconds))):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        if len(tasks) < AT_ONCE:
            task = asyncio.ensure_future(ask(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


async def at_load(port: int, examples: Sequence[Example], rate: float, seconds: float) -> Rates:
    """Return the 50th and the 99th percentile of the milliseconds of a request at a rate."""
    found, free = list[float](), list[Client]()

    async def ask(number: int) -> None:
        began = time.perf_counter()
        client = free.pop() if free else Client(port)
        status, _ = await client.answer(examples[number % len(examples)])
        assert status == 200
        found.append(1000 * (time.perf_counter() - began))
        free.append(client)

    await in_time(rate, seconds, ask)
    for client in free:
        client.close()
    return {"p50": [float(np.percentile(found, 50))], "p99": [float(np.percentile(found, 99))]}


async def overloaded(
    port: int, examples: Sequence[Example], expected: Sequence[str | None], rate: float, seconds: float
) -> None:
    """Ask at a rate that is too high. A wrong answer, or another status than 200 and 429, ends the benchmark with an error."""
    pairs, free, counts = list(islice(cycle(zip(examples, expected, strict=True)), 10_000)), list[Client](), {200: 0, 429: 0}

    async def ask(number: int) -> None:
        client = free.pop() if free else Client(port)
        example, right = pairs[number % len(pairs)]
        status, text = await client.answer(example)
        if status not in counts or (status == 200 and text != right):
            raise SystemExit(f"under overload: status {status}, {text!r} instead of {right!r}")
        counts[status] += 1
        free.append(client)

    await in_time(rate, seconds, ask)
    for client in free:
        client.close()
    print(f"overload: {counts[200]} answered right, {counts[429]} refused with 429")


def memory(process: int) -> float:
    """Return the memory of a process in megabytes."""
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    (kilobytes,) = re.findall(r"VmRSS:\s+(\d+) kB", text)
    return int(kilobytes) / 1000


if __name__ == "__main__":
    main()
