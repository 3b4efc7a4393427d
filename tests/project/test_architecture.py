"""The map in ARCHITECTURE.md holds: a room imports only rooms above it in the list."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "lamina"


def rooms() -> list[str]:
    """The rooms in the order in which ARCHITECTURE.md lists them."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    block = text.split("<!-- rooms -->")[1]
    return re.findall(r"^\| `(\w+)(?:\.py|/)`", block, re.MULTILINE)


def room_of(module: str) -> str:
    return module.split(".")[1]


def imports(path: Path) -> set[str]:
    """The modules of lamina that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "lamina":
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "lamina" else [node.module]
            found |= {name for name in names if name != "lamina.__version__"}
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("lamina.")}
    return found


def test_every_room_is_on_the_map_and_nothing_else() -> None:
    present = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}
    assert set(rooms()) == present - {"__init__", "__main__", "__pycache__", "recipes"}


def test_rooms_import_only_what_stands_above_them() -> None:
    order = {room: number for number, room in enumerate(rooms())}
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        wrong += [f"{path.name} imports {m}" for m in imports(path) if order[room_of(m)] > order[room]]
    assert not wrong


def test_transformers_is_imported_only_where_a_tokenizer_is_converted() -> None:
    users = {
        path.name for path in PACKAGE.rglob("*.py") if re.search(r"^\s*(from|import) transformers", path.read_text(), re.M)
    }
    assert users <= {"load.py"}


def test_the_project_names_no_machine() -> None:
    """Nothing in the tree knows the folder that it was made in."""
    for path in [*PACKAGE.rglob("*.py"), *ROOT.glob("*.md"), *ROOT.glob("docs/*"), ROOT / "Makefile"]:
        if path.is_file() and path.suffix not in (".png",):
            assert str(ROOT.parent) + "/" not in path.read_text(encoding="utf-8"), path
