"""Trains the rows of a table and writes down what each was worth and what it cost.

    python scripts/rows.py results/parameter-efficiency

The folder's rows.toml names the rows: `base` settings, then those of each row, where "@name" stands for a list of
[settings]. Every row is a `lamina train` of its own in runs/FOLDER/ROW, where FOLDER is the path below results/; rows that
have finished are not trained again. The result is rows.json beside rows.toml, and a table on standard output. What rows.json
says of rows whose folders are gone is kept; with `--missing`, these are not trained again either.

With `recipe`, rows are settings of that recipe; a row may begin with another one, as "recipe: recipes/minbert/ours.toml". With
`seeds`, a row is trained once with each, in runs/FOLDER/ROW-seedN, seed by seed, so that a table which was stopped half-way
has whole rows of fewer seeds.

With `reach`, a row of questions also says after how many minutes of training the balanced F1 of the held-out part was there.
With `against`, names of rows, each row is compared with the first of them that its own name begins with, else with the last
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
    options.add_argument("folder", type=Path, help="with a rows.toml")
    options.add_argument("--workers", type=int, default=1, help="trainings at once; give each its share of train.threads")
    options.add_argument("--only", nargs="*", help="these rows")
    options.add_argument("--missing", action="store_true", help="the rows (and seeds) that rows.json does not have")
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
        done: dict[tuple[str, int | None], Path] = {}  # other folders may be of other settings
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
    """Return where the rows of a folder are trained.

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
    """Where a row has the scores of a seed."""
    return "scores" if seed is None else f"seed {seed}"


def recorded(folder: Path, table: dict[str, Any]) -> dict[str, Any]:
    """What rows.json says of rows and ensembles that the table still has, with the same settings or members."""
    path = folder / "rows.json"
    rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    asked = {name: described(table, name) for name in table["rows"]} | table.get("ensembles", {})
    return {name: one for name, one in rows.items() if name in asked and asked[name] == one.get("settings", one.get("members"))}


def described(table: dict[str, Any], name: str) -> list[str]:
    """All that a row was trained with, its seed aside."""
    settings = settings_of(table, name, None)
    recipe = table.get("recipe")
    return settings if recipe is None or any(s.startswith("recipe: ") for s in settings) else [f"recipe: {recipe}", *settings]


def gather(table: dict[str, Any], done: dict[tuple[str, int | None], Path], known: dict[str, Any]) -> dict[str, Any]:
    """What these trainings were worth, in the order of the table; of others, what is known."""
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
    """Writes into the new row, or into all whose base it is, how they differ from their bases: by context and, where there
    are several, by question."""
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
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["overall"]
    return {name: round(told[name], 3) for name in ("difference", "low", "high", "p")} | {"verdict": told["verdict"]}


def write(folder: Path, found: dict[str, Any]) -> None:
    (folder / "rows.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def slug(name: str) -> str:
    """A folder's name.

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
    if "zero" not in found:  # of sentences
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
    """Of training, until an evaluation on the held-out part had that F1; None if none had."""
    entries = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    reached = [entry["step"] for entry in entries if entry.get("evaluation", {}).get("balanced_f1", 0) >= f1]
    seconds = json.loads((out / "run.json").read_text(encoding="utf-8"))["costs"]["train_seconds"]
    return round(seconds / 60 * reached[0] / entries[-1]["step"], 2) if reached else None


def lines(rows: dict[str, Any]) -> list[str]:
    """A Markdown table."""
    head = ["row", "trained", "EM/F1 at 0", "tuned", "best", "HasAns/NoAns F1 tuned", "train s", "store s", "dev s", "MB"]
    extra = [
        name for name in ("by question: tuned", "best", "against") if any(cells_of_questions(one) for one in rows.values())
    ]
    made = [head + extra, ["---"] * len(head + extra)]
    for name, one in rows.items():
        at = one["scores"]
        pairs = [pair(at[kind]) for kind in ("zero", "tuned", "best")]
        split = "/".join(f"{at['tuned'][kind]:.1f}" if kind in at["tuned"] else "" for kind in ("HasAns_f1", "NoAns_f1"))
        costs = one.get("costs", {})
        spent = [costs.get(name, "") for name in ("train_seconds", "store_seconds", "dev_seconds", "peak_memory_mb")]
        trained = f"{one['trained_parameters']:,}" if "trained_parameters" in one else ""
        more = (cells_of_questions(one) or [""] * 3) if extra else []
        made.append([name, trained, *pairs, split, *map(str, spent), *more])
    return [f"| {' | '.join(cells)} |" for cells in made]


def pair(scores: dict[str, float]) -> str:
    return f"{scores['exact']:.1f}/{scores['f1']:.1f}"


def cells_of_questions(one: dict[str, Any]) -> list[str]:
    """What the questions with several contexts were worth, and how their F1 differs from that of the base."""
    if "questions" not in one["scores"]:
        return []
    told = one.get("against", {}).get("question")
    against = f"{told['difference']:+.1f} ({told['low']:+.1f} to {told['high']:+.1f})" if told else ""
    return [*(pair(one["scores"]["questions"][kind]) for kind in ("tuned", "best")), against]


def seed_lines(rows: dict[str, Any]) -> list[str]:
    """A Markdown table of sentence tasks: means over the seeds, and how far they spread."""
    tasks = next(iter(next(iter(of_seeds(one).values()))["scores"] for one in rows.values()))
    tasks = [task for task in tasks if task != "overall"]
    head = ["row", "seeds", *tasks, "mean", "train s"]
    made = [head, ["---"] * len(head)]
    for name, one in rows.items():
        seeds = of_seeds(one).values()
        of_tasks = [[main_score(seed["scores"][task]) for seed in seeds] for task in tasks]
        cells = [spread(values) for values in [*of_tasks, [mean(of_seed) for of_seed in zip(*of_tasks, strict=True)]]]
        seconds = sum(seed["costs"]["train_seconds"] for seed in seeds) / len(seeds)
        made.append([name, str(len(seeds)), *cells, f"{seconds:.0f}"])
    return [f"| {' | '.join(cells)} |" for cells in made]


def of_seeds(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name.startswith("seed ")}


def main_score(scores: dict[str, Any]) -> float:
    return float(next(scores[name] for name in ("pearson_of_cosine", "pearson", "accuracy") if name in scores))


def spread(values: list[float]) -> str:
    """
    >>> spread([0.5, 0.52, 0.54]), spread([0.5])
    ('0.520 ±0.020', '0.500')
    """
    return f"{mean(values):.3f}" + (f" ±{stdev(values):.3f}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
