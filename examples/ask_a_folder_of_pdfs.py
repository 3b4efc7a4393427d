"""Ask the same questions of every PDF in a folder, and write the answers as a table.

It shows how to read documents, how to ask many questions at once, and what a reply holds. It takes some seconds to load the
model, then less than a second for each page and question on two cores.

    python examples/ask_a_folder_of_pdfs.py contracts/ "Who signed it?" "When was it signed?" --out answers.csv
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import lamina

COLUMNS = ("file", "question", "answer", "place", "confidence", "sentence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--model", default="reader", help="a run folder, a checkpoint's folder or a hub id")
    parser.add_argument("--out", type=Path, default=Path("answers.csv"))
    options = parser.parse_args()

    files = sorted(options.folder.rglob("*.pdf"))
    if not files:
        parser.error(f"{options.folder}: there are no PDF files")
    reader = lamina.load(options.model)
    with options.out.open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out)
        table.writerow(COLUMNS)
        for file in files:
            for row in rows(reader, file, options.questions):
                table.writerow(row)
                print(*row[:5], sep=" | ")


def rows(reader: lamina.Reader, file: Path, questions: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each question. Without an answer, the answer and its place are empty."""
    document = lamina.read_document(file)
    for reply in reader.answer(questions, document.text):
        answer, place, sentence = "", "", ""
        if reply.answer is not None:
            answer, place = reply.answer.text, document.place(reply.answer.start)
            first, last = document.sentence(reply.answer.start, reply.answer.end)
            sentence = document.text[first:last]
        yield str(file), reply.question, answer, place, f"{reply.confidence:.2f}", sentence


if __name__ == "__main__":
    main()
