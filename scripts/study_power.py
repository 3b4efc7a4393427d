"""Print which differences a study would find, from runs of its baseline that differ only in their seed.

    lamina study parameter-efficiency --only L12 --seed 0 --seed 1 --seed 2 --seed 3 --seed 4 --out runs/power
    python scripts/study_power.py runs/power --seeds 1 2 3 5

Each line is the smallest true difference from the baseline that a study with so many seeds finds in four of five cases. The
questions are those of the dev set of these runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lamina.errors import LaminaError
from lamina.experiments.compare import item_scores
from lamina.experiments.reports.study_results import read_results
from lamina.scoring.power import power_of, sentence


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("study", type=Path, help="the folder of a study whose baseline has two seeds or more")
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 5], help="numbers of seeds of the planned study")
    given = options.parse_args()
    try:
        print("\n".join(lines(given.study, given.seeds)))
    except LaminaError as error:
        raise SystemExit(f"study_power: {error}") from None


def lines(study: Path, seeds: list[int]) -> list[str]:
    """Return a line with the spread of the baseline, and one for each number of seeds."""
    results = read_results(study)
    name = results.about["baseline"]
    runs = [one.path for one in results.variants[name].seeds] if name in results.variants else []
    items = item_scores(runs) if runs else None
    scores = [100 * one for one in items.scores.values()] if items else []
    found = [power_of(scores, items.clusters if items else None, seeds=count) for count in seeds]
    first = (
        f"{name}: a standard deviation of {found[0].seed_deviation:.2f} over {len(runs)} seeds, "
        f"and a standard error of {found[0].question_error:.2f} from {found[0].questions:,} questions"
    )
    return [first, *map(sentence, found)]


if __name__ == "__main__":
    main()
