"""The size of an installation without extras, by package, and whether the commands work there.

    .venv/bin/python benchmarks/install.py FOLDER

FOLDER is a new folder for the environment. Lamina is installed from a wheel of this checkout, with the versions of
constraints.txt. pip and setuptools, which every environment has, do not count. Afterwards `benchmarks/runtimes.py --clean
FOLDER/bin/python` measures the cold start there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST = 260e6  # bytes
OF_PIP = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence.pth")


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as wheels:
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels)
        venv.create(folder, with_pip=True)
        (wheel,) = Path(wheels).iterdir()
        run(str(folder / "bin" / "pip"), "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel))
    (packages,) = (folder / "lib").glob("python*/site-packages")
    sizes = Counter[str]()
    for file in packages.rglob("*"):
        name = file.relative_to(packages).parts[0]
        if file.is_file() and not file.is_symlink() and not name.startswith(OF_PIP):
            sizes[name] += file.stat().st_size
    for name, size in sizes.most_common(20):
        print(f"{size / 1e6:6.1f} MB  {name}")
    total = sum(sizes.values())
    print(f"{total / 1e6:6.1f} MB  all; the most is {MOST / 1e6:.0f} MB")
    done = subprocess.run([folder / "bin" / "python", "-c", "import torch"], capture_output=True, check=False)
    if done.returncode == 0 or total > MOST:
        raise SystemExit("torch is installed there, or the installation is too large")


def run(*command: str) -> None:
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
