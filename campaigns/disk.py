"""Full disks, missing rights, odd files and odd surroundings: one clear line, and nothing that existed is lost.

- full: a writing command on a small disk (a tmpfs; without the right to mount one, a limit on the size of a file). What was
  there before must be there after. With more space, the resumed command must give the results of an undisturbed one.
- rights: a writing command in a folder that its user may only read.
- input: a pipe, a device, a loop of links, a folder, a name that is no UTF-8 or an empty name, where a file is expected.
- surroundings: no HOME, LANG=C, a closed standard output, a clock that jumps. The command works, or ends with one line.
- two: two processes write one folder. One works, the other ends with one line.

    python -m campaigns.disk --size 100 --log disk.jsonl --out results/hardening/disk.json
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from campaigns import material
from campaigns.common import Campaign, Command, Ended, Failure, HangError, bad_end, parser, preload
from campaigns.kill import PATIENCE, check, different, leftovers, results

KEPT = b"what was here before"


class Disks:
    """The commands, their undisturbed results, and the kinds of disturbance."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        recipe = material.write_recipe(self.data)
        (self.data / "space.toml").write_text(material.SPACE)
        self._whole: dict[str, dict[str, object]] = {}
        run = self.data / "run"
        self.writers: dict[str, Callable[[Path], list[object]]] = {
            "train": lambda out: ["train", recipe, "--out", out],
            "average": lambda out: ["average", run, run, "--out", out],
            "export": lambda out: ["export", run, out],
            "onnx": lambda out: ["export", run, out, "--to", "onnx"],
            "predict": lambda out: ["predict", run, "--data", self.data / "dev.json", "--out", out / "p.json"],
            "clean": lambda out: ["data", "clean", self.data / "train.json", "--out", out / "c.json"],
        }
        self.kinds: dict[str, Callable[[Random, Path], str]] = {
            "full": self.full,
            "rights": self.rights,
            "input": self.input,
            "surroundings": self.surroundings,
            "two": self.two,
        }
        self.mounts = can_mount(folder)
        command = Command(self.writers["train"](run), folder / "o", self._variables(folder))
        check(bad_end(command.wait(PATIENCE)), "the first run failed")

    def _variables(self, work: Path) -> dict[str, str | None]:
        return {"LAMINA_CACHE": str(work / "cache"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "LAMINA_DATA": None}

    def _run(
        self,
        words: Sequence[object],
        work: Path,
        before: Callable[[], None] = lambda: None,
        **variables: str | None,
    ) -> Ended:
        (self.folder / "o").mkdir(exist_ok=True)
        given = {**self._variables(work), **variables}
        return Command(words, self.folder / "o", given, before, cwd=work).wait(PATIENCE)

    def whole(self, name: str) -> dict[str, object]:
        """Return the results of an undisturbed command."""
        if name not in self._whole:
            work = self.folder / f"whole-{name}"
            work.mkdir()
            out = work / "out"
            if name in ("predict", "clean"):
                out.mkdir()
            ended = self._run(self.writers[name](out), work)
            check(bad_end(ended) or (ended.err if ended.code else None), "the undisturbed command failed")
            self._whole[name] = results(out)
        return self._whole[name]

    # ---- disturbances

    def full(self, draw: Random, work: Path) -> str:
        """Run a writing command on a disk that fills up, then again with space."""
        name = draw.choice(sorted(self.writers))
        wanted = self.whole(name)
        out = work / "disk" / "out"
        needed = sum(len(one) for one in wanted.values() if isinstance(one, bytes)) + 50_000
        room = int(needed * draw.uniform(0, 1.5))
        out.parent.mkdir()
        with small_disk(out.parent, room) if self.mounts else unlimited() as grow:
            (out.parent / "kept").write_bytes(KEPT)
            if name in ("predict", "clean"):
                out.mkdir()
                wrote = self.writers[name](out)[-1]
                Path(str(wrote)).write_bytes(KEPT)  # an older version, which must stay if the new one does not fit
            ended = self._run(self.writers[name](out), work, (lambda: None) if self.mounts else limit(room))
            check(bad_end(ended), f"{name} on a disk of {room} bytes")
            check(None if (out.parent / "kept").read_bytes() == KEPT else "lost", "a file that existed is")
            check(", ".join(leftovers(work)), f"{name} left over")
            if ended.code == 0:
                return f"{name}: it fitted"
            if name in ("predict", "clean"):
                check(None if Path(str(wrote)).read_bytes() == KEPT else "lost", "the older version is")
            grow()
            words = self.writers[name](out)
            if name == "train" and (out / "recipe.json").exists():
                words.append("--resume")
            ended = self._run(words, work)
            check(bad_end(ended) or (ended.err if ended.code else None), f"{name} with space again")
            check(different(results(out), wanted), f"{name} with space again: other results in")
        return f"{name}: one line, then resumed"

    def rights(self, draw: Random, work: Path) -> str:
        """Run a writing command in a folder that can only be read."""
        name, place = draw.choice(sorted(self.writers)), draw.choice(["out", "cache"])
        closed = work / "closed"
        closed.mkdir()
        out = closed / "out" if place == "out" else work / "out"
        if place == "cache" and name in ("predict", "clean"):
            out.mkdir()
        cache = str(closed / "cache") if place == "cache" else str(work / "cache")
        if not self.mounts and os.getuid() == 0:
            return "not tried: root may write everywhere, and no disk can be mounted"
        with read_only(closed, mounts=self.mounts):
            ended = self._run(self.writers[name](out), work, LAMINA_CACHE=cache, HOME=str(closed))
        check(bad_end(ended), f"{name}, {place}")
        if place == "out":
            check("it worked" if ended.code == 0 else None, f"{name} in a folder without rights")
        return f"{name}, {place}"

    def input(self, draw: Random, work: Path) -> str:
        """Name something odd where a file is expected."""
        kind = draw.choice(["pipe", "device", "loop", "folder", "bytes", "empty", "broken link", "socket"])
        path = odd_file(kind, work)
        commands: dict[str, list[object]] = {
            "check": ["data", "check", path],
            "clean": ["data", "clean", path, "--out", work / "c.json"],
            "train": ["train", path, "--out", work / "out"],
            "data": ["train", self.data / "recipe.toml", "--set", f"data.train={path}", "--out", work / "out"],
            "ask": ["ask", path, "Who built it?"],
            "model": ["ask", "--model", path, "--text", "Ada built it.", "Who?"],
            "compare": ["compare", path, path],
            "average": ["average", path, "--out", work / "out"],
            "predict": ["predict", self.data / "run", "--data", path, "--out", work / "p.json"],
            "space": ["tune", self.data / "recipe.toml", "--space", path, "--out", work / "out"],
            "show": ["recipes", "show", path],
            "inspect": ["inspect", path],
        }
        name = draw.choice(sorted(commands))
        check(bad_end(self._run(commands[name], work)), f"{kind} for {name}")
        return kind

    def surroundings(self, draw: Random, work: Path) -> str:
        """Run a command in odd surroundings."""
        name = draw.choice(["train", "average", "clean"])
        (work / "out").mkdir()
        out = work / "out" / "x" if name != "clean" else work / "out"
        wanted = self.whole(name)
        kind = draw.choice(["no HOME", "LANG=C", "closed output", "clock jumps"])
        variables: dict[str, dict[str, str | None]] = {
            "no HOME": {"HOME": None},
            "LANG=C": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"},
        }
        ended = self._run(
            self.writers[name](out),
            work,
            {"closed output": close_output, "clock jumps": jumping_clock}.get(kind, lambda: None),
            **variables.get(kind, {}),
        )
        if kind == "closed output" and ended.code == 2:
            check(bad_end(ended), f"{kind}, {name}")
        else:
            check(bad_end(ended) or (ended.err if ended.code else None), f"{kind}, {name}")
        found = results(out)
        check(different(found, wanted), f"{kind}, {name}: other results in")
        return kind

    def two(self, draw: Random, work: Path) -> str:
        """Run a training twice at once in one folder."""
        wanted = self.whole("train")
        out = work / "out"
        first = Command(self.writers["train"](out), work / "o1", self._variables(work), cwd=work)
        time.sleep(draw.uniform(0, 1))
        second = Command(self.writers["train"](out), work / "o2", self._variables(work), cwd=work)
        ends = [first.wait(PATIENCE), second.wait(PATIENCE)]
        for ended in ends:
            check(bad_end(ended), "two processes")
        codes = sorted(ended.code for ended in ends)
        check(None if codes == [0, 2] else str(codes), "two processes ended with")
        check(different(results(out), wanted), "two processes: other results in")
        check(", ".join(leftovers(work)), "left over")
        return "one worked"


# ---- helpers


def can_mount(folder: Path) -> bool:
    """Return whether this process may mount a small disk."""
    place = folder / "mount"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False)
    if done.returncode == 0:
        subprocess.run(["umount", str(place)], check=True)
    return done.returncode == 0


@contextmanager
def small_disk(place: Path, room: int) -> Iterator[Callable[[], None]]:
    """Mount a disk of so many bytes in a folder, and yield a function that makes it large."""
    pages = max(4, room // 4096 + 4)

    def enlarge() -> None:
        subprocess.run(["mount", "-o", "remount,size=200m", str(place)], check=True)

    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={pages * 4096}", "tmpfs", str(place)], check=True)
    try:
        yield enlarge
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextmanager
def unlimited() -> Iterator[Callable[[], None]]:
    """Yield a function that does nothing: the limit is one of a process."""
    yield lambda: None


def limit(room: int) -> Callable[[], None]:
    """Return a function that limits the size of each file of a process."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (max(200, room), max(200, room)))


@contextmanager
def read_only(place: Path, *, mounts: bool) -> Iterator[None]:
    """Make a folder read-only: as a disk of its own if one can be mounted, else by its rights."""
    if not mounts:
        place.chmod(0o555)
        yield
        place.chmod(0o755)
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def close_output() -> None:
    """Close standard output, as `>&-` does."""
    os.close(1)
    sys.stdout = None  # as the interpreter sets it then


def jumping_clock() -> None:
    """Let the time of day jump back by hours, and forward by years, at every look."""
    real = time.time
    jumps = [0.0, -7200.0, 3e8, -86400.0, 1.0]

    def jumping() -> float:
        jumps.append(jumps.pop(0))
        return real() + jumps[-1]

    time.time = jumping


def odd_file(kind: str, work: Path) -> str | Path:
    """Make something that is no ordinary file, and return its path."""
    path: str | Path = work / "odd.json"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            return "/dev/zero"
        case "loop":
            Path(path).symlink_to(work / "other.json")
            (work / "other.json").symlink_to(path)
        case "folder":
            Path(path).mkdir()
        case "bytes":
            path = os.fsdecode(os.fsencode(work) + b"/\xff\xfe\x80.json")
            Path(path).write_bytes(material.squad_json())
        case "empty":
            return ""
        case "broken link":
            Path(path).symlink_to(work / "nothing")
        case _:
            import socket

            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path)[-100:] if len(str(path)) < 100 else "odd.json")
    return path


def run(campaign: Campaign, names: Sequence[str] = ()) -> Campaign:
    """Run all cases; the kinds take turns."""
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    preload()
    with tempfile.TemporaryDirectory(prefix="disk-", ignore_cleanup_errors=True) as place:
        disks = Disks(Path(place).resolve())
        if not disks.mounts:
            campaign.notes.append("no right to mount a disk: full disks are limits on the size of a file")
        campaign.notes.append("the clock jumps in time.time of Python only, not in the system calls of libraries")
        order = [name for name in disks.kinds if not names or name in names]
        for case in range(campaign.size):
            if campaign.over:
                break
            name = order[case % len(order)]
            work = Path(place).resolve() / "work"
            work.mkdir()
            try:
                campaign.count(name, disks.kinds[name](campaign.draw(case), work))
            except AssertionError as problem:
                campaign.fail(Failure(case, name, "wrong", str(problem)[:1500]))
            except HangError as problem:
                campaign.fail(Failure(case, name, "hang", str(problem)))
            shutil.rmtree(work, ignore_errors=True)
    return campaign


def main() -> int:
    options = parser(__doc__ or "", size=40)
    options.add_argument("--only", nargs="+", default=[], help="kinds of disturbance")
    given = options.parse_args()
    return run(Campaign("disk", given.seed, given.size, given.log, given.at_most), given.only).finish(given.out)


if __name__ == "__main__":
    sys.exit(main())
