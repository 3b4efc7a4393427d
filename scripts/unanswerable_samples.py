"""Print synthetic unanswerable questions to read, with their source questions and answers.

.venv/bin/python scripts/unanswerable_samples.py squad2-train-31k 100
"""

from __future__ import annotations

import sys
import textwrap
from collections import Counter

from lamina.augment.synthetic import source_id
from lamina.augment.unanswerable import UnanswerableOptions, make_unanswerable
from lamina.data.sources import load_examples
from lamina.data.splits import sample

SEED = 7


def main(data: str, count: int, share: float = 0.5) -> None:
    examples = load_examples(data)
    originals = {example.id: example for example in examples}
    synthetic = make_unanswerable(examples, UnanswerableOptions(share=share), SEED)
    kinds = Counter(one.id.rpartition("#")[2] for one in synthetic)
    counts = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
    print(f"{len(synthetic)} synthetic questions from {len(examples)} questions: {counts}")
    for number, one in enumerate(sample(synthetic, count, SEED), 1):
        original = originals[source_id(one.id)]
        answers = " | ".join(dict.fromkeys(answer.text for answer in original.answers))
        print(f"\n{number}. {one.id}\n   source:    {original.question}  ->  {answers}\n   synthetic: {one.question}")
        print(textwrap.fill(one.context, 118, initial_indent="   text:      ", subsequent_indent=" " * 14))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100)
