"""transformers.js reads an exported model, as docs/runtime.md shows: the snippet of the page runs in Node.

The package is installed once, into the cache of Lamina. Its scripts are not run: they only get files for graphics processors.
Without Node, npm or its registry the tests are skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

import lamina
from lamina.data.examples import Example
from lamina.data.windows import make_windows
from lamina.utils.paths import cache_folder
from lamina.utils.progress import Silent
from tests.checkout import ROOT
from tests.runtime.test_without_torch import folder

__all__ = ["folder"]  # a fixture

PACKAGE = "@huggingface/transformers@4.3.1"
QUESTION, TEXT = "Who built the mill?", "The mill was built by Ada Thorn."  # those of the page
PRINT = """
const rows = [inputs.input_ids, start_logits, end_logits].map((tensor) => Array.from(tensor.data, Number));
console.log(JSON.stringify(rows));
"""


@pytest.fixture(scope="module")
def packages() -> Path:
    """Return the folder node_modules with transformers.js."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node or npm is missing")
    place = cache_folder() / "node" / PACKAGE.replace("/", "-")
    if not (place / "node_modules").is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
            command = ["npm", "install", "--ignore-scripts", "--no-fund", "--no-audit", "--prefix", temporary, PACKAGE]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
            if done.returncode != 0:
                pytest.skip(f"npm cannot install {PACKAGE}: {done.stderr.strip().splitlines()[-1:]}")
            if not place.exists():  # another process may have been faster
                Path(temporary).rename(place)
                Path(temporary).mkdir()  # which the block deletes
    return place / "node_modules"


def snippet() -> str:
    """Return the JavaScript of the page."""
    found = re.findall(r"```js\n(.*?)```", (ROOT / "docs" / "runtime.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(found) == 1
    return str(found[0])


@pytest.mark.parametrize("kind", ["q8", "fp32"])
def test_the_snippet_gives_our_logits(kind: str, packages: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(packages)
    (tmp_path / "exported").symlink_to(folder / "onnx")
    code = snippet()
    assert QUESTION in code and TEXT in code and 'dtype: "q8"' in code
    (tmp_path / "snippet.mjs").write_text(code.replace('dtype: "q8"', f'dtype: "{kind}"') + PRINT)
    environment = {**os.environ, "NODE_PATH": str(packages)}
    done = subprocess.run(
        ["node", "snippet.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr
    ids, *logits = json.loads(done.stdout.splitlines()[-1])
    reader = lamina.load(folder / "onnx", precision="int8" if kind == "q8" else "float32")
    windows = make_windows([Example("a", QUESTION, TEXT, (), group="a", article="")], reader.tokenizer, reader.recipe.window)
    ours = reader.trained.engine.spans(windows, "main", Silent())
    assert ids == windows.ids.tolist()
    for found, wanted in zip(logits, (ours.start, ours.end), strict=True):
        if kind == "fp32":
            assert np.abs(np.array(found) - wanted).max() < 1e-4
        assert np.corrcoef(found, wanted)[0, 1] > 0.999
