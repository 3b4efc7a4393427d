"""A release can be built now: the wheel and the source archive (sdist) are whole, and the installed wheel works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import lamina
from tests.checkout import ROOT, tracked_files

pytestmark = pytest.mark.xdist_group("packaging")  # one worker builds, for all of these tests

# Without PYTHONPATH, which could hide the installed package behind this checkout.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def build(source: Path, out: Path, *targets: str) -> None:
    """Build in `source` as `make dist` does, into the folder `out`."""
    wanted = [option for target in targets for option in ("-t", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", out, *wanted], cwd=source, check=True, capture_output=True
    )


@dataclass(frozen=True)
class Archive:
    """A built wheel or sdist: its path, and the bytes of each file in it."""

    path: Path
    files: dict[str, bytes]

    @classmethod
    def wheel(cls, folder: Path) -> Archive:
        (path,) = folder.glob("*.whl")
        with zipfile.ZipFile(path) as archive:
            return cls(path, {name: archive.read(name) for name in archive.namelist()})

    @classmethod
    def sdist(cls, folder: Path) -> Archive:
        """The names are without the first folder, which is the name and version of the package."""
        (path,) = folder.glob("*.tar.gz")
        with tarfile.open(path) as archive:
            members = [(member.name.partition("/")[2], archive.extractfile(member)) for member in archive if member.isfile()]
            return cls(path, {name: file.read() for name, file in members if file is not None})


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Archive:
    return Archive.wheel(dist)


@pytest.fixture(scope="module")
def sdist(dist: Path) -> Archive:
    return Archive.sdist(dist)


@pytest.fixture(scope="module")
def metadata(wheel: Archive) -> Message:
    (text,) = (content for name, content in wheel.files.items() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(text.decode())


# ---- what the archives hold


def test_the_wheel_holds_the_package_and_the_recipes_only(wheel: Archive) -> None:
    info = f"lamina_qa-{lamina.__version__}.dist-info"
    tracked = tracked_files()
    modules = {path.removeprefix("src/") for path in tracked if path.startswith("src/lamina/")}
    recipes = {f"lamina/{path}" for path in tracked if path.startswith("recipes/")}
    about = {
        f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE")
    }
    assert "lamina/py.typed" in modules
    assert len(recipes) > 40
    assert wheel.path.name == f"lamina_qa-{lamina.__version__}-py3-none-any.whl"
    assert set(wheel.files) == modules | recipes | about


def test_the_sdist_holds_every_tracked_file(sdist: Archive) -> None:
    assert sdist.path.name == f"lamina_qa-{lamina.__version__}.tar.gz"
    assert set(sdist.files) == tracked_files() | {"PKG-INFO"}


def test_a_wheel_built_from_the_sdist_is_the_same(sdist: Archive, wheel: Archive, tmp_path: Path) -> None:
    with tarfile.open(sdist.path) as archive:
        archive.extractall(tmp_path, filter="data")
    build(tmp_path / f"lamina_qa-{lamina.__version__}", tmp_path / "again", "wheel")
    assert Archive.wheel(tmp_path / "again").files == wheel.files


# ---- what the package says of itself


def test_the_metadata_describe_the_package(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("lamina-qa", lamina.__version__)
    assert metadata["Summary"] == 'Quoted answers from your own texts, or an honest "not in the text", on an ordinary CPU.'
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert "question answering" in metadata["Keywords"].split(",")


def test_the_classifiers_name_the_tested_pythons(metadata: Message) -> None:
    classifiers = set(metadata.get_all("Classifier", []))
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= classifiers
    assert "Typing :: Typed" in classifiers
    assert not [one for one in classifiers if one.startswith("License ::")], "License-Expression replaces them"


def test_every_extra_but_two_is_installed_by_make(metadata: Message) -> None:
    """The extra `korean` brings OpenCV and more than 200 MB, for one file of words. With `openvino`, test workers died."""
    script = (ROOT / "scripts/install.sh").read_text(encoding="utf-8")
    (installed,) = re.findall(r"-e '\.\[([\w,]+)\]'", script)
    assert sorted(installed.split(",")) == sorted(set(metadata.get_all("Provides-Extra", [])) - {"korean", "openvino"})


def test_the_changelog_starts_with_the_version(metadata: Message) -> None:
    """An empty section for unreleased changes may come before it."""
    headings = re.findall(r"^## \[([^\]]+)\](.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    released = [(version, date) for version, date in headings if version != "Unreleased"]
    assert released[0][0] == metadata["Version"]
    assert all(re.fullmatch(r" - \d{4}-\d\d-\d\d", date) for _, date in released)


# ---- the installed wheel


@pytest.fixture(scope="module")
def clean(wheel: Archive, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel. The dependencies come from this environment, so nothing is downloaded.

    Python does not read the .pth files of a folder that a .pth file names. So the editable install here stays out of it.
    """
    home = tmp_path_factory.mktemp("installed") / "clean venv"
    venv.create(home, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel.path], check=True, env=ENVIRONMENT)
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    (site_packages(home) / "dependencies.pth").write_text("\n".join(dependencies))
    return home


def site_packages(home: Path) -> Path:
    (folder,) = (home / "lib").glob("python*/site-packages")
    return folder


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_installed_command_runs_and_finds_the_recipes(clean: Path, tmp_path: Path) -> None:
    site = site_packages(clean)
    assert (
        run(clean / "bin/python", "-c", "import lamina; print(lamina.__file__)", cwd=tmp_path) == f"{site}/lamina/__init__.py\n"
    )
    command = clean / "bin/lamina"
    assert run(command, "--version", cwd=tmp_path) == f"lamina {lamina.__version__}\n"
    assert "quickstart" in run(command, "recipes", "list", cwd=tmp_path).split()
    code = (
        "from lamina.config import bundled as b; print(b.space_path('rates'), b.recipe_path('korean', b.pretraining_folder()))"
    )
    found = run(clean / "bin/python", "-c", code, cwd=tmp_path)
    assert found == f"{site}/lamina/recipes/spaces/rates.toml {site}/lamina/recipes/pretraining/korean.toml\n"


@pytest.mark.slow
def test_the_examples_of_the_readme_run_on_the_installed_wheel(clean: Path, tmp_path: Path) -> None:
    """The shipped reader is part of the wheel. Examples that need the hub are left out."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    examples = [code for code in EXAMPLE.findall(readme) if not re.search(r"owner/|deepset/", code)]
    assert any("lamina.load()" in code for code in examples)
    for code in examples:
        where = "\nimport lamina\nprint(lamina.__file__)\n"
        printed = run(clean / "bin/python", "-c", code + where, cwd=tmp_path)
        assert Path(printed.splitlines()[-1]).is_relative_to(clean)


# ---- the pins


def test_every_dependency_is_pinned() -> None:
    """constraints.txt names every installed package that the tests run with."""
    command = [sys.executable, "-m", "pip", "list", "--format=freeze", "--exclude-editable"]
    installed = names(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    pinned = names((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert not installed - pinned - {"pip", "setuptools", "lamina-qa"}


def names(listed: str) -> set[str]:
    return {line.split("==")[0].lower().replace("_", "-") for line in listed.splitlines() if "==" in line}
