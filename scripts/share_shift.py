"""Measure calibration when the share of unanswerable questions changes between training and use.

Half of the questions fits the old decision, as training does, at one share. The other half is the use, at another share.
For each way to calibrate, prints how much F1 is lost to the best threshold of the test questions, and the calibration error.
Means over several random halves. The best threshold was chosen on the test questions. So even a fit on them loses some F1.

.venv/bin/python scripts/share_shift.py runs/quickstart fables/dev --old 0.2 --new 0.5
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np

import lamina
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import Prediction
from lamina.answers.prior_shift import estimate_from, shifted
from lamina.data.examples import Example
from lamina.data.sources import load_examples
from lamina.scoring.predictions import calibrate, null_curve, score_at, tune_threshold
from lamina.scoring.recalibration import measure, refit, replies_of, share_of, too_few
from lamina.utils.arrays import Longs

SIZES = (50, 200, 500)  # labelled questions


class Questions:
    """Questions of both kinds, with their predictions, to draw samples from."""

    def __init__(self, predictions: Sequence[Prediction], examples: Sequence[Example], seed: int) -> None:
        self.predictions, self.examples = predictions, examples
        self.random = np.random.default_rng(seed)

    def sample(self, pool: Longs, share: float, size: int | None = None) -> Longs:
        """Return numbers of questions with this share of unanswerable ones; as many as there are, or at most `size`."""
        kinds = [pool[[bool(self.examples[n].answers) is wanted for n in pool]] for wanted in (False, True)]
        most = int(min(len(kinds[0]) / share, len(kinds[1]) / (1 - share)))
        total = most if size is None else min(size, most)
        sizes = (round(total * share), total - round(total * share))
        return np.concatenate(
            [self.random.choice(kind, count, replace=False) for kind, count in zip(kinds, sizes, strict=True)]
        )

    def of(self, numbers: Longs) -> tuple[list[Prediction], list[Example]]:
        return [self.predictions[n] for n in numbers], [self.examples[n] for n in numbers]


def trained(predictions: Sequence[Prediction], examples: Sequence[Example]) -> SpanDecision:
    """Return the decision that training fits on a held-out split."""
    return SpanDecision(
        threshold=tune_threshold(predictions, examples)[0],
        calibration=calibrate(predictions, examples),
        unanswerable=share_of(examples),
        curve=null_curve(predictions, examples),
    )


def decisions(questions: Questions, old: float, new: float) -> Iterator[tuple[str, SpanDecision, Longs]]:
    """Yield each way to calibrate with its decision, and the numbers of the test questions."""
    order = questions.random.permutation(len(questions.examples))
    before, use = np.array_split(order, 2)
    test = questions.sample(use, new, len(use) // 2)
    rest = np.setdiff1d(use, test)
    fitted = trained(*questions.of(questions.sample(before, old)))
    yield "as trained", fitted, test
    yield f"share declared ({new})", shifted(fitted, new), test
    found = estimate_from(fitted, questions.of(questions.sample(rest, new))[0])
    yield "share estimated", shifted(fitted, found.share), test
    yield "the test questions themselves", refit(SpanDecision(), *questions.of(test)), test
    for size in SIZES:
        numbers = questions.sample(rest, new, size)
        if len(numbers) == size and not too_few(questions.of(numbers)[1]):
            yield f"{size} labelled", refit(fitted, *questions.of(numbers)), test
            yield f"{size} labelled, no older fit", refit(SpanDecision(), *questions.of(numbers)), test


def study(predictions: Sequence[Prediction], examples: Sequence[Example], old: float, new: float, repeats: int) -> None:
    """Print the table."""
    found: dict[str, list[tuple[float, float, float, float]]] = {}
    for seed in range(repeats):
        questions = Questions(predictions, examples, seed)
        for name, decision, test in decisions(questions, old, new):
            some, own = questions.of(test)
            scores = measure(replies_of(decision, some), own, share_of(own))
            lost = score_at(some, own, 0.0)["best_f1"] - scores["f1"]
            found.setdefault(name, []).append((lost, scores["f1"], scores["ece"], decision.unanswerable or 0.0))
    print(f"{'decision':<30}{'F1 lost':>9}{'90%':>7}{'F1':>7}{'ECE':>7}{'share':>7}")
    for name, values in found.items():
        rows = np.array(values)
        lost, f1, error, share = rows.mean(0)
        print(f"{name:<30}{lost:>9.2f}{np.quantile(rows[:, 0], 0.9):>7.2f}{f1:>7.2f}{error:>7.3f}{share:>7.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a run folder or a checkpoint")
    parser.add_argument("data", help="labelled questions that the model was not trained on")
    parser.add_argument("--old", type=float, default=0.2, help="share of unanswerable questions in training")
    parser.add_argument("--new", type=float, default=0.5, help="share in use")
    parser.add_argument("--repeats", type=int, default=10, help="number of random halves")
    given = parser.parse_args()
    examples = load_examples(given.data)
    study(lamina.load(given.model).predict(examples), examples, given.old, given.new, given.repeats)


if __name__ == "__main__":
    main()
