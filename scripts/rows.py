"""Train the rows of a table, and write the scores and costs of each.

    python scripts/rows.py results/parameter-efficiency

The folder's rows.toml has `base` settings and those of each row, where "@name" is a list of [settings]. Every row is one run
of `lamina train` in runs/FOLDER/ROW, where FOLDER is the path below results/. Finished rows are not trained again. The result
is rows.json beside rows.toml, and a table on standard output. rows.json keeps rows whose run folders are missing. With
`--missing`, these are not trained again.

With `recipe`, rows are settings of that recipe. A row may start with another one, as "recipe: recipes/minbert/ours.toml". With
`seeds`, a row is trained once with each seed, in runs/FOLDER/ROW-seedN. All rows of a seed come before the next seed, so a
table that was stopped has complete rows of fewer seeds.

With `reach`, a row of questions also has the minutes of training until the held-out split reached that balanced F1. With
`against`, names of rows, each row is compared with the first of them that starts its own name, else with the last
(`lamina compare`).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import mean, stdev
from typing import Any

RECIPE = """[data]
train = ""
"""


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("folder", type=Path, help="the folder with a rows.toml")
    options.add_argument("--workers", type=int, default=1, help="train so many rows at once; divide train.threads among them")
    options.add_argument("--only", nargs="*", help="train only these rows; without it, all")
    options.add_argument("--missing", action="store_true", help="train only rows (and seeds) that are not in rows.json")
    given = options.parse_args()
    table = tomllib.loads((given.folder / "rows.toml").read_text(encoding="utf-8"))
    runs = runs_of(given.folder)
    outs = {(name, seed): runs / folder(name, seed) for seed in table.get("seeds", [None]) for name in table["rows"]}
    found = recorded(given.folder, table)
    with ThreadPoolExecutor(given.workers) as workers:
        trainings = {
            workers.submit(train, out, table.get("recipe"), settings_of(table, name, seed)): (name, seed)
            for (name, seed), out in outs.items()
            if (given.only is None or name in given.only) and not (given.missing and key(seed) in found.get(name, {}))
        }
        done: dict[tuple[str, int | None], Path] = {}  # other folders may have other settings
        for training in as_completed(trainings):
            training.result()
            new = trainings[training]
            done[new] = outs[new]
            found = gather(table, done, found)
            if "against" in table:
                compare(found, table["against"], {name: outs[name, None] for name in found if (name, None) in outs}, new[0])
            write(given.folder, found)
    for name, members in table.get("ensembles", {}).items():
        out = runs / slug(name)
        if all((runs / slug(member) / "scores.json").is_file() for member in members):
            if not out.exists():
                command = [
                    sys.executable,
                    "-m",
                    "lamina",
                    "ensemble",
                    *(str(runs / slug(m)) for m in members),
                    "--out",
                    str(out),
                ]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            found[name] = {"members": members, "scores": scores(out)}
    write(given.folder, found)
    print("\n".join(seed_lines(found) if "seeds" in table else lines(found)))


def runs_of(folder: Path) -> Path:
    """Return the folder of the runs of a table.

    >>> runs_of(Path("results/korean-qa/english")).as_posix(), runs_of(Path("elsewhere/table")).as_posix()
    ('runs/korean-qa/english', 'runs/table')
    """
    path = folder.resolve()
    results = next((parent for parent in path.parents if parent.name == "results"), path.parent)
    return Path("runs") / path.relative_to(results)


def folder(name: str, seed: int | None) -> str:
    return slug(name) if seed is None else f"{slug(name)}-seed{seed}"


def settings_of(table: dict[str, Any], name: str, seed: int | None) -> list[str]:
    chosen = [*table["base"], *expanded(table["rows"][name], table.get("settings", {}))]
    return chosen if seed is None else [*chosen, f"train.seed={seed}"]


def key(seed: int | None) -> str:
    """Return the key of a seed's scores in a row."""
    return "scores" if seed is None else f"seed {seed}"


def recorded(folder: Path, table: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of rows.json that the table has with the same settings, and the ensembles of such rows."""
    path = folder / "rows.json"
    rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    asked = {name: described(table, name) for name in table["rows"]}
    kept = {name: one for name, one in rows.items() if name in asked and asked[name] == one.get("settings")}
    ensembles = table.get("ensembles", {})
    of_kept = {
        name: one
        for name, one in rows.items()
        if one.get("members") == ensembles.get(name, ()) and kept.keys() >= set(ensembles[name])
    }
    return kept | of_kept


def described(table: dict[str, Any], name: str) -> list[str]:
    """Return the recipe and all settings of a row, without its seed."""
    settings = settings_of(table, name, None)
    recipe = table.get("recipe")
    return settings if recipe is None or any(s.startswith("recipe: ") for s in settings) else [f"recipe: {recipe}", *settings]


def gather(table: dict[str, Any], done: dict[tuple[str, int | None], Path], known: dict[str, Any]) -> dict[str, Any]:
    """Return the results of the finished runs, in the order of the table; other rows keep their known results."""
    found: dict[str, Any] = {}
    for name in table["rows"]:
        if name in known:
            found[name] = known[name]
        for seed in table.get("seeds", [None]):
            if (out := done.get((name, seed))) is not None:
                found.setdefault(name, {"settings": described(table, name)})
                found[name] |= row(out) if seed is None else {key(seed): row(out)}
                if "reach" in table:
                    found[name][f"minutes to F1 {table['reach']}"] = minutes_to(out, table["reach"])
    return found | {name: known[name] for name in table.get("ensembles", {}) if name in known}


def compare(found: dict[str, Any], bases: list[str], outs: dict[str, Path], new: str) -> None:
    """Write the differences of rows and their bases into the new row, or into all rows whose base it is.

    Differences are by context and, if questions have several contexts, by question.
    """
    for name, one in ((name, found[name]) for name in outs):
        base = next((base for base in bases if name.startswith(base)), bases[-1])
        there = all(run in outs and (outs[run] / "scores.json").is_file() for run in (name, base))
        if there and name != base and new in (name, base):
            kinds = ("context", "question") if "questions" in one["scores"] else ("context",)
            one["against"] = {"row": base} | {kind: difference(outs[base], outs[name], kind) for kind in kinds}


def difference(base: Path, out: Path, kind: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "lamina", "compare", str(base), str(out), "--json"]
    if kind == "question":
        command += ["--per", kind]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["overall"]
    return {name: round(found[name], 3) for name in ("difference", "low", "high", "p")} | {"verdict": found["verdict"]}


def write(folder: Path, found: dict[str, Any]) -> None:
    (folder / "rows.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def slug(name: str) -> str:
    """Return the name of a row's folder.

    >>> slug("C64 unshared e=0.3")
    'C64-unshared-e0.3'
    """
    return re.sub(r"[^\w.-]+", "-", name.replace("=", "").replace(" + ", "+"))


def expanded(settings: list[str], named: dict[str, list[str]]) -> list[str]:
    return [part for setting in settings for part in (named[setting[1:]] if setting.startswith("@") else [setting])]


def train(out: Path, recipe: str | None, settings: list[str]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    if other := [s for s in settings if s.startswith("recipe: ")]:
        recipe, settings = other[0].removeprefix("recipe: "), [s for s in settings if s not in other]
    if recipe is None:
        path = out.parent / "recipe.toml"
        path.write_text(RECIPE, encoding="utf-8")
        recipe = str(path)
    lamina("train", recipe, "--out", str(out), "--resume", *(part for s in settings for part in ("--set", s)))


def lamina(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "lamina", *arguments], check=True, stdout=sys.stderr)


def row(out: Path) -> dict[str, Any]:
    info = json.loads((out / "run.json").read_text(encoding="utf-8"))
    costs = {name: round(value, 1) for name, value in info["costs"].items()}
    return {"scores": scores(out), "trained_parameters": info["parameters"]["trainable"], "costs": costs}


def scores(out: Path) -> dict[str, Any]:
    found = json.loads((out / "scores.json").read_text(encoding="utf-8"))
    if "zero" not in found:  # sentence tasks have no thresholds
        rounded: dict[str, Any] = json.loads(json.dumps(found), parse_float=lambda number: round(float(number), 4))
        return rounded
    questions = {"questions": at_thresholds(found["questions"])} if "questions" in found else {}
    return at_thresholds(found) | questions


def at_thresholds(found: dict[str, Any]) -> dict[str, Any]:
    kept = ("exact", "f1", "HasAns_f1", "NoAns_f1", "exact_match", "nfc_exact_match", "nfc_f1")
    return {
        at: {name: round(found[at][name], 2) for name in kept if name in found[at]}
        for at in ("zero", "tuned", "best", "korquad", "korquad_always")
        if at in found
    }


def minutes_to(out: Path, f1: float) -> float | None:
    """Return the minutes of training until an evaluation on the held-out split had that F1, or None if none had."""
    entries = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    reached = [entry["step"] for entry in entries if entry.get("evaluation", {}).get("balanced_f1", 0) >= f1]
    seconds = json.loads((out / "run.json").read_text(encoding="utf-8"))["costs"]["train_seconds"]
    return round(seconds / 60 * reached[0] / entries[-1]["step"], 2) if reached else None


def lines(rows: dict[str, Any]) -> list[str]:
    """Return the lines of a Markdown table."""
    head = ["row", "trained", "EM/F1 at 0", "tuned", "best", "HasAns/NoAns F1 tuned", "train s", "store s", "dev s", "MB"]
    extra = [
        name for name in ("by question: tuned", "best", "against") if any(cells_of_questions(one) for one in rows.values())
    ]
    table = [head + extra, ["---"] * len(head + extra)]
    for name, one in rows.items():
        at = one["scores"]
        pairs = [pair(at[kind]) for kind in ("zero", "tuned", "best")]
        split = "/".join(f"{at['tuned'][kind]:.1f}" if kind in at["tuned"] else "" for kind in ("HasAns_f1", "NoAns_f1"))
        costs = one.get("costs", {})
        spent = [costs.get(name, "") for name in ("train_seconds", "store_seconds", "dev_seconds", "peak_memory_mb")]
        trained = f"{one['trained_parameters']:,}" if "trained_parameters" in one else ""
        more = (cells_of_questions(one) or [""] * 3) if extra else []
        table.append([name, trained, *pairs, split, *map(str, spent), *more])
    return [f"| {' | '.join(cells)} |" for cells in table]


def pair(scores: dict[str, float]) -> str:
    return f"{scores['exact']:.1f}/{scores['f1']:.1f}"


def cells_of_questions(one: dict[str, Any]) -> list[str]:
    """Return the scores of questions with several contexts, and the difference of their F1 from the base."""
    if "questions" not in one["scores"]:
        return []
    found = one.get("against", {}).get("question")
    against = f"{found['difference']:+.1f} ({found['low']:+.1f} to {found['high']:+.1f})" if found else ""
    return [*(pair(one["scores"]["questions"][kind]) for kind in ("tuned", "best")), against]


def seed_lines(rows: dict[str, Any]) -> list[str]:
    """Return the lines of a Markdown table of sentence tasks: means and standard deviations over the seeds."""
    tasks = next(iter(next(iter(of_seeds(one).values()))["scores"] for one in rows.values()))
    tasks = [task for task in tasks if task != "overall"]
    head = ["row", "seeds", *tasks, "mean", "train s"]
    table = [head, ["---"] * len(head)]
    for name, one in rows.items():
        seeds = of_seeds(one).values()
        of_tasks = [[main_score(seed["scores"][task]) for seed in seeds] for task in tasks]
        cells = [spread(values) for values in [*of_tasks, [mean(of_seed) for of_seed in zip(*of_tasks, strict=True)]]]
        seconds = sum(seed["costs"]["train_seconds"] for seed in seeds) / len(seeds)
        table.append([name, str(len(seeds)), *cells, f"{seconds:.0f}"])
    return [f"| {' | '.join(cells)} |" for cells in table]


def of_seeds(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name.startswith("seed ")}


def main_score(scores: dict[str, Any]) -> float:
    return float(next(scores[name] for name in ("pearson_of_cosine", "pearson", "accuracy") if name in scores))


def spread(values: list[float]) -> str:
    """Return the mean and the standard deviation.

    >>> spread([0.5, 0.52, 0.54]), spread([0.5])
    ('0.520 ±0.020', '0.500')
    """
    return f"{mean(values):.3f}" + (f" ±{stdev(values):.3f}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
