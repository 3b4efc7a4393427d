"""ARCHITECTURE.md is true: a room imports only rooms above it in the list."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "lamina"


def rooms() -> list[str]:
    """Return the rooms in the order of ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    block = text.split("<!-- rooms -->")[1]
    return re.findall(r"^\| `(\w+)(?:\.py|/)`", block, re.MULTILINE)


def room_of(module: str) -> str:
    return module.split(".")[1]


def imports(path: Path) -> set[str]:
    """Return the modules of lamina that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "lamina":
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "lamina" else [node.module]
            found |= {name for name in names if name != "lamina.__version__"}
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("lamina.")}
    return found


def test_architecture_lists_every_room_and_nothing_else() -> None:
    present = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}
    assert set(rooms()) == present - {"__init__", "__main__", "__pycache__", "models", "recipes"}


def test_rooms_import_only_rooms_above_them() -> None:
    order = {room: number for number, room in enumerate(rooms())}
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        wrong += [f"{path.name} imports {m}" for m in imports(path) if order[room_of(m)] > order[room]]
    assert not wrong


# ---- modules that need neither torch nor POSIX

# Imports every module named on standard input. Prints the error of each by name; None if it was imported.
IMPORT_ALL = """
import builtins, importlib, json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in NAMES:
            raise ImportError(f"{name} is blocked")

def of_lamina(name, globals=None, locals=None, fromlist=(), level=0):
    if name in POSIX and (globals or {}).get("__name__", "").split(".")[0] == "lamina":
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return usual(name, globals, locals, fromlist, level)

NAMES, POSIX = sys.argv[1].split(), ("fcntl", "resource", "readline", "pwd", "grp", "termios")
sys.meta_path.insert(0, Blocked())
usual, builtins.__import__ = builtins.__import__, of_lamina
found = {}
for module in json.load(sys.stdin):
    try:
        importlib.import_module(module)
        found[module] = None
    except ImportError as error:
        found[module] = str(error)
print(json.dumps(found))
"""


def modules() -> list[str]:
    """Return all modules of the package except the one that starts the command."""
    parts = [path.relative_to(PACKAGE.parent).with_suffix("").parts for path in PACKAGE.rglob("*.py")]
    names = sorted(".".join(part for part in path if part != "__init__") for path in parts)
    return [name for name in names if name != "lamina.__main__"]


def imported(*, without: str) -> dict[str, str | None]:
    """Return the import error of each module without these packages and POSIX-only modules; None if it can be imported."""
    command = [sys.executable, "-c", IMPORT_ALL, without]
    done = subprocess.run(command, input=json.dumps(modules()), capture_output=True, text=True, check=True)
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


def torch_column() -> dict[str, tuple[str, set[str]]]:
    """Return for each room the first word of its column `torch` in ARCHITECTURE.md, and the modules that the column names."""
    block = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("<!-- rooms -->")[1]
    rows = re.findall(r"^\| `(\w+)(?:\.py|/)` \|.*\| (\w+)([^|]*) \|$", block, re.MULTILINE)
    return {room: (word, {f"lamina.{room}.{name}" for name in re.findall(r"`(\w+)`", rest)}) for room, word, rest in rows}


def of_room(room: str) -> set[str]:
    return {name for name in modules() if name == f"lamina.{room}" or name.startswith(f"lamina.{room}.")}


def torch_free() -> set[str]:
    """Return the modules that import no torch, as ARCHITECTURE.md lists them: rooms without some modules, or single modules."""
    free = {"lamina"}
    for room, (word, named) in torch_column().items():
        if word in ("no", "only"):
            free |= of_room(room) - named
        elif word == "not":
            free |= named
    return free


@pytest.fixture(scope="module")
def without_torch() -> dict[str, str | None]:
    return imported(without="torch")


def test_torch_free_modules_import_without_torch_and_posix(without_torch: dict[str, str | None]) -> None:
    assert {room: word for room, (word, _) in torch_column().items() if word not in ("no", "only", "not", "yes")} == {}
    assert len(torch_free()) > 70
    assert {name: without_torch[name] for name in torch_free() if without_torch[name] is not None} == {}


def test_exceptions_of_torch_free_rooms_need_torch(without_torch: dict[str, str | None]) -> None:
    exceptions = {name for word, named in torch_column().values() if word == "only" for name in named}
    assert len(exceptions) > 3
    assert {name: without_torch[name] for name in exceptions if without_torch[name] != "torch is blocked"} == {}


def test_all_modules_import_without_posix_modules() -> None:
    assert {name: error for name, error in imported(without="").items() if error is not None} == {}


# ---- other imports and names that are not allowed


def test_only_the_tokenizer_conversion_imports_transformers() -> None:
    users = {
        path.name for path in PACKAGE.rglob("*.py") if re.search(r"^\s*(from|import) transformers", path.read_text(), re.M)
    }
    assert users <= {"load.py"}


def test_project_does_not_name_its_folder() -> None:
    """Check that no file has the path of the folder that the project was made in."""
    for path in [*PACKAGE.rglob("*.py"), *ROOT.glob("*.md"), *ROOT.glob("docs/*"), ROOT / "Makefile"]:
        if path.is_file() and path.suffix not in (".png",):
            assert str(ROOT.parent) + "/" not in path.read_text(encoding="utf-8"), path
