"""Draw docs/terminal.svg, a real session with the quickstart's model. Usage: .venv/bin/python scripts/terminal_picture.py"""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = (
    "Who founded the Lantern Guild of Harrowmere?",
    "How many members does the Lantern Guild have?",
    "What food was served at the feasts of the Lantern Guild?",
)


def main() -> None:
    command = ["lamina", "ask", "docs/example.txt", *QUESTIONS]
    answer = subprocess.run(
        [ROOT / ".venv/bin" / command[0], *command[1:]], cwd=ROOT, check=True, capture_output=True, text=True
    )
    console = Console(record=True, width=96, file=io.StringIO())
    shown = " \\\n    ".join(["lamina ask docs/example.txt", *(f'"{question}"' for question in QUESTIONS)])
    console.print(f"[bold green]$[/] {shown}", highlight=False)
    console.print(answer.stdout.rstrip(), markup=False, highlight=False)
    console.save_svg(str(ROOT / "docs" / "terminal.svg"), title="lamina")


if __name__ == "__main__":
    main()
