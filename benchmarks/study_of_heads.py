"""Time a study of many heads on one store, against the extraction of the states and the training steps alone.

    python benchmarks/study_of_heads.py --questions 500

Each run has a process of its own, reads the data, evaluates and writes its folder. All of that is in the time of the study.
Ratio: seconds of the study by seconds of extraction and steps. It should be at most 1.6.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from common import SHARED_DATA, parser
from lamina.experiments.studies.plan import plan_study
from lamina.experiments.studies.run_study import run_study
from lamina.experiments.studies.study_file import Study
from lamina.utils.run_folder import Run, read_object

MIXERS = ("average", "learned", "compression")  # all read the same layers, so they share one store


def heads(data: Sequence[str], questions: int, count: int, epochs: float, threads: int) -> Study:
    """Return a study of heads that differ in their mixer and rate, on the states of one frozen encoder."""
    common = [f"data.train={data[0]}", "data.dev=", f"data.questions={questions}", "tune.layers=0", f"train.epochs={epochs}"]
    common += [f"train.threads={threads}", "train.evaluate_every=1"]
    variants = {}
    for number in range(count):
        mixer = MIXERS[number % len(MIXERS)]
        size = ["mixer.size=64"] if mixer == "compression" else []
        variants[f"head {number}"] = {"set": [f"mixer.type={mixer}", *size, f"train.lr={(1 + number) * 1e-4:.4f}"]}
    sizes = {"desk": {"set": common, "time_examples": 0}}
    values = {"title": "Heads", "recipe": "quickstart", "baseline": "head 0", "sizes": sizes, "variants": variants}
    return Study.model_validate(values)


def main() -> None:
    options = parser(__doc__ or "", questions=500, data=["squad2-train-31k"], repeats=1)
    options.add_argument("--heads", type=int, default=24, help="number of heads (default %(default)s)")
    options.add_argument("--epochs", type=float, default=5.0, help="epochs of each head (default %(default)s)")
    given = options.parse_args()
    data = [str(next(SHARED_DATA.glob(f"{name}.*"), name)) for name in given.data]
    wholes, pures = [], []
    for _ in range(given.repeats):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["LAMINA_CACHE"] = str(Path(folder) / "cache")  # an empty store
            study = heads(data, given.questions, given.heads, given.epochs, given.threads)
            plan = plan_study(study, "desk", Path(folder) / "study")
            began = time.perf_counter()
            table = run_study(plan)
            wholes.append(time.perf_counter() - began)
            assert not table.failed, table.failed
            costs = [read_object(Run(job.path).info)["costs"] for job in plan.jobs]
            pures.append(max(one["store_seconds"] for one in costs) + sum(one["train_seconds"] for one in costs))
    for name, values in (("study, s", wholes), ("extraction and steps, s", pures)):
        values = sorted(values)
        print(f"{name:<28}  {values[len(values) // 2]:,.1f}  {values[0]:,.1f}  {values[-1]:,.1f}")
    print(f"ratio study-of-heads: {sorted(wholes)[len(wholes) // 2] / sorted(pures)[len(pures) // 2]:.2f}")


if __name__ == "__main__":
    main()
