"""Trains the rows of a table and writes down what each was worth and what it cost.

    python scripts/rows.py results/parameter-efficiency

The folder's rows.toml names the rows: `base` settings, then those of each row, where "@name" stands for a list of
[settings]. Every row is a `lamina train` of its own in runs/FOLDER/ROW; rows that have finished are not trained again. The
result is FOLDER/rows.json, and a table on standard output.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

RECIPE = """[data]
train = ""
"""


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("folder", type=Path, help="with a rows.toml")
    options.add_argument("--only", nargs="*", help="these rows")
    given = options.parse_args()
    table = tomllib.loads((given.folder / "rows.toml").read_text(encoding="utf-8"))
    runs = Path("runs") / given.folder.name
    found: dict[str, Any] = {}
    for name, settings in table["rows"].items():
        out = runs / slug(name)
        if given.only is None or name in given.only:
            train(out, [*table["base"], *expanded(settings, table.get("settings", {}))])
        if (out / "scores.json").is_file():
            found[name] = {"settings": settings} | row(out)
    for name, members in table.get("ensembles", {}).items():
        out = runs / slug(name)
        if all(member in found for member in members):
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
    (given.folder / "rows.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines(found)))


def slug(name: str) -> str:
    """A folder's name.

    >>> slug("C64 unshared e=0.3")
    'C64-unshared-e0.3'
    """
    return re.sub(r"[^\w.-]+", "-", name.replace("=", "").replace(" + ", "+"))


def expanded(settings: list[str], named: dict[str, list[str]]) -> list[str]:
    return [part for setting in settings for part in (named[setting[1:]] if setting.startswith("@") else [setting])]


def train(out: Path, settings: list[str]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    recipe = out.parent / "recipe.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    lamina("train", str(recipe), "--out", str(out), "--resume", *(part for s in settings for part in ("--set", s)))


def lamina(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "lamina", *arguments], check=True, stdout=sys.stderr)


def row(out: Path) -> dict[str, Any]:
    info = json.loads((out / "run.json").read_text(encoding="utf-8"))
    costs = {name: round(value, 1) for name, value in info["costs"].items()}
    return {"scores": scores(out), "trained_parameters": info["parameters"]["trainable"], "costs": costs}


def scores(out: Path) -> dict[str, Any]:
    kept = ("exact", "f1", "HasAns_f1", "NoAns_f1")
    found = json.loads((out / "scores.json").read_text(encoding="utf-8"))
    return {at: {name: round(found[at][name], 2) for name in kept if name in found[at]} for at in ("zero", "tuned", "best")}


def lines(rows: dict[str, Any]) -> list[str]:
    """A Markdown table."""
    head = ["row", "trained", "EM/F1 at 0", "tuned", "best", "HasAns/NoAns F1 tuned", "train s", "store s", "dev s", "MB"]
    made = [head, ["---"] * len(head)]
    for name, one in rows.items():
        at = one["scores"]
        pairs = [f"{at[kind]['exact']:.1f}/{at[kind]['f1']:.1f}" for kind in ("zero", "tuned", "best")]
        split = "/".join(f"{at['tuned'][kind]:.1f}" if kind in at["tuned"] else "" for kind in ("HasAns_f1", "NoAns_f1"))
        costs = one.get("costs", {})
        spent = [costs.get(name, "") for name in ("train_seconds", "store_seconds", "dev_seconds", "peak_memory_mb")]
        trained = f"{one['trained_parameters']:,}" if "trained_parameters" in one else ""
        made.append([name, trained, *pairs, split, *map(str, spent)])
    return [f"| {' | '.join(cells)} |" for cells in made]


if __name__ == "__main__":
    main()
