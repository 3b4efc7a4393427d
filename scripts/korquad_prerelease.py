"""Puts the questions of KorQuAD's pre-release of 2018 to the paragraphs that they are about.

    .venv/bin/python scripts/korquad_prerelease.py FILE MAP OUT

In FILE the paragraphs of an article are mixed up. MAP says for each question which of the article's paragraphs is meant,
counted from 0: ``{"map": {"6478341-0-0": 0, ...}}``; questions that it does not name are left out. OUT is a SQuAD file, which
`lamina data contexts` makes data for recipes/korean-qa of.
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
    """The corpus with each question at its paragraph; without paragraphs that no question is about."""
    articles = []
    for article in corpus["data"]:
        paragraphs = [{"context": paragraph["context"], "qas": list[Any]()} for paragraph in article["paragraphs"]]
        for question in (question for paragraph in article["paragraphs"] for question in paragraph["qas"]):
            if question["id"] in places:
                paragraphs[places[question["id"]]]["qas"].append(question)
        if kept := [paragraph for paragraph in paragraphs if paragraph["qas"]]:
            articles.append({"title": article["title"], "paragraphs": kept})
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
