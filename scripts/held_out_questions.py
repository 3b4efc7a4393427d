"""Write the held-out questions of a run as a SQuAD file, for `data.held_out` of a training that starts from the run.

    .venv/bin/python scripts/held_out_questions.py reader $LAMINA_DATA/reader-held-out.json

The split is drawn again from the recipe and the training data of the run, so both must be as they were.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lamina.config.parse import parse_recipe
from lamina.data.squad import to_squad
from lamina.tasks.kind import FileCache
from lamina.tasks.registry import kind_of
from lamina.utils.files import write_json
from lamina.utils.run_folder import Run
from lamina.utils.shipped import model_folder


def main(run: str, out: Path) -> None:
    recipe = parse_recipe(Run.open(model_folder(run)).read_recipe(), name=run)
    splits = kind_of(recipe.main).splits(recipe.main, recipe.train.seed, FileCache(), dev=False)
    write_json(out, to_squad(splits.holdout))
    print(f"{out}: {len(splits.holdout):,} questions; {len(splits.train):,} others were trained on")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
