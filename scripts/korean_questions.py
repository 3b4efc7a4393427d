"""Put several files of questions together into one training set.

    .venv/bin/python scripts/korean_questions.py FILE... OUT --without DEV...

FILE and DEV are files that `lamina train` reads. OUT is a SQuAD file. Paragraphs that share 8 words in a row with a paragraph
of DEV are left out with their questions, so that the dev set stays unseen. Ids become unique: `id`, `id~2`. A title has
spaces instead of underscores, so that the same article of two files is one article and is held out as one.

The Korean training set of recipes/korean-qa/multilingual-e5.toml, from the files in $LAMINA_DATA (11,055 questions):

    python scripts/korquad_prerelease.py $LAMINA_DATA/korquad-v1.0-dev-prerelease-2018.json.xz \\
        $LAMINA_DATA/korquad-prerelease-context-map.json prerelease.json
    python scripts/korean_questions.py prerelease.json $LAMINA_DATA/tydiqa-goldp-ko-train.json.xz \\
        $LAMINA_DATA/klue-mrc-part.json.xz $LAMINA_DATA/korean-train.json --without $LAMINA_DATA/korquad-v1.0-dev.json.xz
"""

from __future__ import annotations

import argparse
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lamina.data.examples import Example
from lamina.data.squad import read, to_squad
from lamina.data.unique_ids import UniqueIds
from lamina.errors import LaminaError
from lamina.utils.files import check_apart, write_json

RUN = 8  # words in a row that two different texts do not share by chance
UNTITLED = re.compile(r"data\[\d+\]")  # the name of an article without a title


def runs(text: str) -> Iterator[tuple[str, ...]]:
    """Yield all runs of 8 words of a text; one run of all words of a shorter text.

    >>> len(list(runs("a b c d e f g h i"))), list(runs("a b"))
    (2, [('a', 'b')])
    """
    words = unicodedata.normalize("NFC", text).split()
    for start in range(max(1, len(words) - RUN + 1)):
        yield tuple(words[start : start + RUN])


def together(files: Sequence[Path], without: Sequence[Path]) -> tuple[list[Example], list[int]]:
    """Return the questions of all files, and how many questions of each file were left out."""
    unseen = {run for file in without for context in contexts_of(file) for run in runs(context)}
    ids = UniqueIds("~")
    kept: list[Example] = []
    left_out = []
    for file in files:
        examples = read(file, duplicate_ids="rename")
        shared = {context for context in contexts_of(file) if not unseen.isdisjoint(runs(context))}
        left_out.append(sum(example.context in shared for example in examples))
        for example in examples:
            if example.context not in shared:
                own = ids.unique(example.id)
                title = example.article.replace("_", " ")
                article = f"{file.name.partition('.')[0]} {title}" if UNTITLED.fullmatch(title) else title
                kept.append(replace(example, id=own, group=own, article=article))
    return kept, left_out


def contexts_of(file: Path) -> dict[str, None]:
    """Return the different contexts of a file, in order."""
    return dict.fromkeys(example.context for example in read(file, duplicate_ids="rename"))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Put several files of questions together into one training set.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="read the questions of these files")
    parser.add_argument("out", type=Path, metavar="OUT", help="write this SQuAD file")
    parser.add_argument(
        "--without",
        nargs="+",
        default=[],
        type=Path,
        metavar="DEV",
        help="leave out paragraphs of these files; without it, none",
    )
    options = parser.parse_args(arguments)
    for file in (*options.files, *options.without):
        check_apart(file, options.out)
    examples, left_out = together(options.files, options.without)
    write_json(options.out, to_squad(examples))
    for file, count in zip(options.files, left_out, strict=True):
        print(f"{file.name}: {count} questions left out")
    print(f"{options.out}: {len(examples)} questions on {len({example.context for example in examples})} contexts")


if __name__ == "__main__":
    try:
        main()
    except LaminaError as error:
        sys.exit(str(error))
