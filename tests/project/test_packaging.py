"""The wheel holds all that it needs."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

import lamina

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_wheel_installs_in_a_clean_venv_and_runs(tmp_path: Path) -> None:
    """The dependencies come from this environment, so that nothing is downloaded; the package comes from the wheel."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT], check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "clean venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True
    )
    site = next((home / "lib").glob("python*/site-packages"))
    dependencies = [p for p in sys.path if p.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(dependencies))
    (here,) = subprocess.run(
        [python, "-c", "import lamina; print(lamina.__file__)"], check=True, capture_output=True, text=True, cwd=tmp_path
    ).stdout.splitlines()
    assert Path(here).is_relative_to(home)
    command = home / "bin" / "lamina"
    version = subprocess.run([command, "--version"], check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert version == f"lamina {lamina.__version__}\n"
    recipes = subprocess.run([command, "recipes", "list"], check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert "quickstart" in recipes.split()
    code = (
        "from lamina.config import bundled as b; print(b.space_path('rates'), b.recipe_path('korean', b.pretraining_folder()))"
    )
    found = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert found == f"{site}/lamina/recipes/spaces/rates.toml {site}/lamina/recipes/pretraining/korean.toml\n"


def test_every_dependency_is_pinned() -> None:
    """constraints.txt names every installed package that the tests run with."""
    command = [sys.executable, "-m", "pip", "list", "--format=freeze", "--exclude-editable"]
    installed = names(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    pinned = names((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert not installed - pinned - {"pip", "setuptools", "lamina-qa"}


def names(listed: str) -> set[str]:
    return {line.split("==")[0].lower().replace("_", "-") for line in listed.splitlines() if "==" in line}
