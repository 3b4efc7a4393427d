"""The rooms data and augment without torch and without modules that only POSIX has."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import importlib, pkgutil, sys
for name in ("torch", "fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
import lamina.augment, lamina.data
for room in (lamina.data, lamina.augment):
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        if module.name not in ("lamina.data.batches", "lamina.data.hidden_states"):
            importlib.import_module(module.name)
"""


def test_all_but_batches_and_hidden_states_import_without_torch() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
