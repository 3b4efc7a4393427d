"""Train on a CSV file from two starting points, and test whether one run is better than the other.

The first run starts from the pretrained encoder, the second from a model that answers questions already. It shows how to train
from Python, and how to compare two runs with a confidence interval. It takes some minutes
for 300 short questions on two cores.

    python examples/fine_tune_on_a_csv_and_compare.py train.csv dev.csv --start reader

Both files have the columns question, context and answer; an empty answer means that the context has none.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lamina
from lamina.experiments.compare import compare, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("--start", default="reader", help="a model that answers questions")
    parser.add_argument("--out", type=Path, default=Path("runs/compared"), help="a folder for both runs")
    parser.add_argument(
        "--set", action="append", default=[], metavar="TABLE.FIELD=VALUE", help="change the recipe of both runs"
    )
    options = parser.parse_args()

    settings = [f"data.train={options.train}", f"data.dev={options.dev}", "train.epochs=2", *options.set]
    plain = lamina.train("quickstart", options.out / "plain", settings=settings)
    warm = lamina.train("quickstart", options.out / "warm", settings=[*settings, f"encoder.model={options.start}"])
    for run in (plain, warm):
        scores = lamina.evaluate(run.path, options.dev)
        print(f"{run.path}: F1 {scores['tuned']['f1']:.1f}, threshold {scores['tuned']['threshold']:.2f}")
    print("\n".join(lines(compare(plain.path, warm.path))))


if __name__ == "__main__":
    main()
