"""Search for the best settings of a recipe, and write a folder of trials, each a run.

- ``search.json``: the recipe and the space
- ``study.db``: Optuna's study
- ``trials/007``: a trial's run folder, without dev scores; a trial that repeats earlier settings has none
- ``logs/007.log``: the standard error of its process
- ``trials.json``: the trials and their results, the best first
- ``trials.png``: their scores by each field of the space
- ``best.json``: the recipe with the best settings; `lamina train` accepts it
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import with_config
from typing_extensions import TypedDict  # pydantic checks only this one in Python 3.11

from lamina.config.parse import parse_recipe, read_values
from lamina.config.recipe import Recipe
from lamina.errors import LaminaError
from lamina.experiments.tuning.space import Settings, Space, as_settings, settings_line
from lamina.experiments.tuning.worker_pool import WorkerPool
from lamina.tasks.checks import build_on_meta, resolved
from lamina.utils import plots
from lamina.utils.files import is_file, make_folder, read_json, write_json
from lamina.utils.locks import alone, foreign
from lamina.utils.options import STORED, stored
from lamina.utils.progress import Progress, Silent

try:
    from lamina.experiments.tuning.shared_trials import Shared
    from lamina.experiments.tuning.trials import Trial, TrialDatabase, opened_database
except ImportError:
    raise LaminaError("lamina tune: needs Optuna, which is not installed. Fix: pip install 'lamina-qa[studies]'") from None

Make = Callable[[Settings], Recipe]  # the recipe with the settings of a trial


@with_config(STORED)
class _Searched(TypedDict):
    """The content of search.json."""

    recipe: dict[str, Any]
    space: dict[str, Any]


@dataclass(frozen=True)
class TuningResult:
    """The result of a search: its trials (the best first), the best recipe's path, and the picture's path or None."""

    folder: Path
    trials: list[Trial]
    best: Path
    picture: Path | None


def search_settings(
    recipe: Path,
    space: Space,
    out: Path,
    *,
    settings: Sequence[str] = (),
    resume: bool = False,
    name: str = "space",
    progress: Progress | None = None,
    shared: Shared | None = None,
) -> TuningResult:
    """Train the recipe with settings of the space, into the folder `out`, and return the trials.

    `resume` continues a search that was stopped. `settings` change the recipe itself. `name` names the space in errors.
    With `shared`, this process joins the search in that storage, and returns when all of its trials have ended.
    """
    progress = progress or Silent()
    space.check_size(name)
    values = read_values(recipe)
    base = parse_recipe(values, settings, name=str(recipe))

    def make(chosen: Settings) -> Recipe:
        return parse_recipe(values, [*settings, *as_settings(chosen)], name=name, origin=f"{name}: ")

    _check(base, space, make)
    _check_folder(out, resume=resume or shared is not None)
    with nullcontext() if shared else alone(out):
        make_folder(out)
        searched = _begin(out, base, space)
        with shared.joined(space, searched) if shared else opened_database(out / "study.db", space) as database:
            _run(database, space, out, make, progress)
            trials = ranked(database.trials())
        write_json(out / "trials.json", [asdict(trial) for trial in trials])
        return TuningResult(out, trials, _write_best(out, trials, make), _draw(out, space, trials, progress))


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials sorted: finished ones by score, then those that were stopped, then those that failed."""
    order = ("done", "pruned", "failed", "unfinished")
    return sorted(trials, key=lambda t: (order.index(t.state), 0.0 if t.score is None else -t.score, t.number))


def trial_table(trials: Sequence[Trial]) -> list[str]:
    """Return the lines of a table of the trials."""
    fields = list(trials[0].settings)
    rows = [["trial", "score", "state", "minutes", *fields]]
    for trial in trials:
        values = [settings_line({field: trial.settings[field]}).partition("=")[2] for field in fields]
        numbers = [
            "" if number is None else f"{number:.{places}f}" for number, places in ((trial.score, 2), (trial.minutes, 1))
        ]
        rows.append([str(trial.number), numbers[0], trial.state, numbers[1], *values])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]


def _check(base: Recipe, space: Space, make: Make) -> None:
    """Raise the errors that can be found before loading any weights."""
    for name, task in base.tasks.items():
        if not task.data.holds_out:
            where = "data" if name == "main" else f"tasks.{name}.data"
            raise LaminaError(
                f"{where}.holdout: is 0, but a search scores its trials on the held-out split. "
                "Fix: set it, for example to 0.05, or name a held_out"
            )
    built = set()
    for settings in space.corners():
        recipe = make(settings)
        shape = recipe.model_copy(update={"train": base.train}).model_dump_json()
        if shape not in built:
            build_on_meta(resolved(recipe))
            built.add(shape)


def _check_folder(out: Path, *, resume: bool) -> None:
    """Raise LaminaError if the folder would be overwritten."""
    begun = is_file(out / "search.json")
    if not begun and foreign(out):
        raise LaminaError(f"{out}: already exists and is not a search of Lamina. Fix: use another --out")
    if begun and not resume:
        raise LaminaError(f"{out}: already has a search. Fix: use --resume to continue it, or another --out")


def _begin(out: Path, base: Recipe, space: Space) -> str:
    """Write search.json and return its content as text.

    A resumed search must have the same recipe and space, but may have more trials or workers.
    """
    file = out / "search.json"
    searched: dict[str, dict[str, Any]] = {
        "recipe": base.model_dump(mode="json"),
        "space": space.model_dump(mode="json", exclude={"search": {"trials", "workers"}}),
    }
    if is_file(file):
        old = stored(_Searched, read_json(file), str(file), "use another --out, or delete this search")
        for part, then, now in (("recipe", old["recipe"], searched["recipe"]), ("space", old["space"], searched["space"])):
            if then != json.loads(json.dumps(now)):
                raise LaminaError(f"{out}: the {part} has changed since this search began. Fix: use another --out")
    else:
        write_json(file, searched)
    return json.dumps(searched, sort_keys=True)


def _run(database: TrialDatabase, space: Space, out: Path, make: Make, progress: Progress) -> None:
    """Keep all workers busy until no trial is left."""
    known = database.trials()
    unfinished = database.interrupted()
    over = {trial.number for trial in known if trial.state != "unfinished"}
    progress.start("searching", space.trials, len(over))
    with WorkerPool(out, space.search.workers) as pool:
        while True:
            while not pool.full and (trial := unfinished.pop(0) if unfinished else database.begin()):
                if twin := database.twin(trial):
                    database.tell(trial.number, twin.score or 0.0, 0.0)
                    over.add(trial.number)
                    progress.say(f"trial {trial.number}: same settings as trial {twin.number}, {twin.score:.2f}")
                    progress.advance(1)
                    continue
                progress.say(f"trial {trial.number}: {settings_line(trial.settings)}")
                try:
                    recipe = make(trial.settings)
                except LaminaError as error:  # its fields do not fit each other
                    over.add(database.fail(trial.number, str(error)).number)
                    progress.say(f"trial {trial.number}: {error}")
                    progress.advance(1)
                    continue
                pool.start(trial.number, recipe)
            if not pool.busy:
                if database.wait():
                    continue
                return
            number, report = pool.next_message()
            if report is None:
                code = pool.close(number)
                if number not in over:
                    log = pool.log(number)
                    if database.lost(number):
                        progress.say(f"trial {number}: its process ended with code {code}; see {log}. It is tried again")
                        continue
                    raise LaminaError(f"trial {number}: its process ended with code {code}. Fix: see {log}, then use --resume")
            elif "share" in report:
                pool.reply(number, database.should_stop(number, report["share"], report["score"]))
            elif "problem" in report and not report["trained"] and not over:  # before any step: all trials would fail
                raise LaminaError(report["problem"])
            else:
                if "problem" in report:
                    ended = database.fail(number, report["problem"])
                else:
                    ended = database.tell(number, report["score"], report["minutes"])
                over.add(number)
                progress.say(f"trial {number}: {ended.problem or f'{ended.state}, {ended.score:.2f}'}")
                progress.advance(1)


def _write_best(out: Path, trials: Sequence[Trial], make: Make) -> Path:
    best = trials[0]
    if best.state != "done":
        if best.problem:
            raise LaminaError(f"{out}: no trial finished: {best.problem}")
        raise LaminaError(f"{out}: no trial finished, because all were stopped. Fix: allow more trials with search.trials")
    write_json(out / "best.json", make(best.settings).model_dump(mode="json"))
    return out / "best.json"


def _draw(out: Path, space: Space, trials: Sequence[Trial], progress: Progress) -> Path | None:
    scored = [trial for trial in trials if trial.score is not None]
    panels = {field: [trial.settings[field] for trial in scored] for field in space.space}
    scores = [trial.score for trial in scored if trial.score is not None]
    marked = [trial.state == "pruned" for trial in scored]
    try:
        plots.scatter_plot(out / "trials.png", panels, scores, y="score on the held-out split", faint=marked)
    except LaminaError as error:  # the results of a long search must not be lost
        progress.say(f"no picture: {error}")
        return None
    return out / "trials.png"
