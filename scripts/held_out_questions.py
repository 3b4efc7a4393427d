"""Write the held-out questions of a recipe as a SQuAD file, for `data.held_out` of a training that starts from its run.

    .venv/bin/python scripts/held_out_questions.py reader/plain $LAMINA_DATA/reader-held-out.json

The first argument is a recipe by name, a TOML file or the recipe.json of a run. The split is drawn again, so the training
data must be as they were.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lamina.config.parse import read_recipe
from lamina.data.squad import to_squad
from lamina.tasks.kind import FileCache
from lamina.tasks.registry import kind_of
from lamina.utils.files import write_json


def main(name: str, out: Path) -> None:
    recipe = read_recipe(name)
    splits = kind_of(recipe.main).splits(recipe.main, recipe.train.seed, FileCache(), dev=False)
    write_json(out, to_squad(splits.holdout))
    print(f"{out}: {len(splits.holdout):,} questions; {len(splits.train):,} others were trained on")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
