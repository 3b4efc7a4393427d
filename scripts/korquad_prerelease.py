"""Move the questions of KorQuAD's pre-release of 2018 to the right paragraphs.

    .venv/bin/python scripts/korquad_prerelease.py FILE MAP OUT

In FILE, questions are at wrong paragraphs of their article. MAP has the number of the right paragraph of each question, from
0: ``{"map": {"6478341-0-0": 0, ...}}``. Questions that are not in MAP are left out. OUT is a SQuAD file. `lamina data contexts`
turns it into the data of recipes/korean-qa.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lamina.data.squad import check
from lamina.errors import LaminaError
from lamina.utils.files import decode_text, read_bytes, read_json, unpack, write_json


def sorted_out(corpus: Mapping[str, Any], places: Mapping[str, int]) -> dict[str, Any]:
    """Return the corpus with each question at its paragraph, without paragraphs that have no questions."""
    articles = []
    for article in corpus["data"]:
        paragraphs = [{"context": paragraph["context"], "qas": list[Any]()} for paragraph in article["paragraphs"]]
        for question in (question for paragraph in article["paragraphs"] for question in paragraph["qas"]):
            if question["id"] in places:
                paragraphs[places[question["id"]]]["qas"].append(question)
        if used := [paragraph for paragraph in paragraphs if paragraph["qas"]]:
            articles.append({"title": article["title"], "paragraphs": used})
    return {"version": corpus.get("version", ""), "data": articles}


def main(file: Path, places: Path, out: Path) -> None:
    corpus = json.loads(decode_text(file, unpack(file, read_bytes(file))))
    write_json(out, sorted_out(corpus, read_json(places)["map"]))
    report = check(out)
    for problem in report.problems:
        print(problem)
    print(report.counts)
    if report.problems:
        sys.exit(2)


if __name__ == "__main__":
    try:
        main(*map(Path, sys.argv[1:4]))
    except LaminaError as error:
        sys.exit(str(error))
