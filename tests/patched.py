"""Copy the package, add files and lines as a contributor would, and run its command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import lamina

ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def code_blocks(section: str) -> list[tuple[str, str, str]]:
    """Return the language, file and text of each code block in a section of CONTRIBUTING.md; a missing file is ""."""
    (text,) = re.findall(
        rf"^### {section}\n(.*?)(?=^##|\Z)", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    blocks = re.findall(r"^```(\w+)\n(?: ?# (src/lamina/\S+)\n)?(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(language, path, code) for language, path, code in blocks]


@dataclass(frozen=True)
class PatchedPackage:
    """A copy of the package in the folder `root`, which comes first on the path of its commands."""

    root: Path

    @classmethod
    def copy(cls, root: Path) -> PatchedPackage:
        """Copy the package of this process, without compiled files."""
        source = Path(lamina.__file__).parent
        shutil.copytree(source, root / "lamina", ignore=shutil.ignore_patterns("__pycache__"))
        return cls(root)

    def add_file(self, path: str, text: str) -> None:
        """Write a new module; an existing one raises FileExistsError."""
        with (self.root / "lamina" / path).open("x", encoding="utf-8") as file:
            file.write(text)

    def add_line(self, path: str, after: str, line: str) -> None:
        """Insert a line after the only line equal to `after`, ignoring white space at both ends."""
        file = self.root / "lamina" / path
        lines = file.read_text(encoding="utf-8").splitlines()
        (place,) = [number for number, old in enumerate(lines) if old.strip() == after.strip()]
        file.write_text("\n".join([*lines[: place + 1], line, *lines[place + 1 :], ""]), encoding="utf-8")

    def add_section(self, section: str) -> None:
        """Add the new files of a section of CONTRIBUTING.md, and each line with a plus after the line before it."""
        for language, path, code in code_blocks(section):
            inside = path.removeprefix("src/lamina/")
            if path and language == "python":
                self.add_file(inside, code)
            elif language == "diff":
                before = ""
                for line in code.splitlines():
                    if line.startswith("+"):
                        self.add_line(inside, before, line[1:])
                    before = line[1:]

    def lamina(self, *arguments: object) -> str:
        """Run the copy's command and return its output; an error fails the test."""
        command = [sys.executable, "-m", "lamina", *map(str, arguments)]
        environment = os.environ | {"PYTHONPATH": str(self.root), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
