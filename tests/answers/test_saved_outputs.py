from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from lamina.answers.decode import decode
from lamina.answers.saved_outputs import load_outputs, save_outputs
from lamina.data.logits import SpanLogits
from lamina.data.windows import WindowOptions, Windows
from lamina.errors import LaminaError
from lamina.utils.run_folder import Run
from tests import tiny

EXAMPLES = tiny.corpus(4)
CUT = WindowOptions(length=48, query=16, step=8)  # several windows per question
STORED = ("starts", "context", "offsets", "max_context", "example")


def random_logits(windows: Windows, seed: int = 0) -> SpanLogits:
    random = np.random.default_rng(seed)
    tokens = int(windows.starts[-1])
    return SpanLogits(*random.normal(scale=4, size=(2, tokens)).astype(np.float32))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run folder with the saved outputs of a dev set."""
    run = Run(tmp_path)
    windows = tiny.windows(EXAMPLES, CUT)
    save_outputs(run, windows, random_logits(windows))
    return run


def test_saved_outputs_decode_to_the_same_predictions(run: Run) -> None:
    windows = tiny.windows(EXAMPLES, CUT)
    logits = random_logits(windows)
    loaded, again = load_outputs(run)
    assert len(loaded) == len(windows) > len(EXAMPLES)
    assert loaded.fingerprint == windows.fingerprint
    for name in STORED:
        before, after = getattr(windows, name), getattr(loaded, name)
        np.testing.assert_array_equal(after, before)
        assert after.dtype == before.dtype, name
    np.testing.assert_array_equal(again.start, logits.start)
    np.testing.assert_array_equal(again.end, logits.end)
    wanted = decode(windows, logits.start, logits.end, EXAMPLES)
    assert decode(loaded, again.start, again.end, EXAMPLES) == wanted


def test_only_fields_that_decoding_needs_are_saved(run: Run) -> None:
    loaded, _ = load_outputs(run)
    assert not len(loaded.ids) and not len(loaded.type_ids) and not len(loaded.gold)
    tokens = int(loaded.starts[-1])
    with safe_open(run.windows, framework="numpy") as file:
        stored = sum(file.get_tensor(name).nbytes for name in file.keys())  # noqa: SIM118 (the handle is no dict)
    assert stored < 3 * tokens


def test_long_texts_and_wide_tokens(tmp_path: Path) -> None:
    """A token can start after character 65,535, and be wider than 255 characters."""
    windows = tiny.windows(EXAMPLES[:1], CUT)
    offsets = windows.offsets.copy()
    offsets[windows.context] = np.array([70_000, 70_300])
    windows = replace(windows, offsets=offsets)
    save_outputs(Run(tmp_path), windows, random_logits(windows))
    np.testing.assert_array_equal(load_outputs(Run(tmp_path))[0].offsets, offsets)


def test_no_draft_is_left(run: Run) -> None:
    assert {path.name for path in run.path.iterdir()} == {"outputs.safetensors", "windows.safetensors"}


def test_a_run_without_a_dev_set(run: Run) -> None:
    run.outputs.unlink()
    with pytest.raises(LaminaError, match=r"has no outputs\.safetensors.*data\.dev"):
        load_outputs(run)


def test_a_run_of_an_older_version(run: Run) -> None:
    run.windows.unlink()
    with pytest.raises(LaminaError, match=r"has no windows\.safetensors, as in runs of older versions\. Fix: train"):
        load_outputs(run)


@pytest.mark.parametrize("name", ["outputs", "windows"])
def test_damaged_files(run: Run, name: str) -> None:
    path: Path = getattr(run, name)
    whole = path.read_bytes()
    for content in (whole[:-7], b"", b"not a safetensors file", whole[:200]):
        path.write_bytes(content)
        with pytest.raises(
            LaminaError, match=rf"{name}\.safetensors: cannot be read .*\. Fix: copy the run folder again, or train"
        ) as caught:
            load_outputs(run)
        assert "\n" not in str(caught.value)


def test_a_file_with_other_arrays(run: Run) -> None:
    run.windows.write_bytes(run.outputs.read_bytes())
    with pytest.raises(LaminaError, match=r"windows\.safetensors: cannot be read \(.*lengths"):
        load_outputs(run)


def test_files_of_different_runs(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Run(tmp_path_factory.mktemp("other"))
    windows = tiny.windows(EXAMPLES[:5], CUT)
    save_outputs(other, windows, random_logits(windows))
    run.windows.write_bytes(other.windows.read_bytes())
    with pytest.raises(LaminaError, match="are of different windows"):
        load_outputs(run)


def test_files_of_different_sizes_with_equal_fingerprints(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Run(tmp_path_factory.mktemp("other"))
    windows = replace(tiny.windows(EXAMPLES[:5], CUT), fingerprint=tiny.windows(EXAMPLES, CUT).fingerprint)
    save_outputs(other, windows, random_logits(windows))
    run.windows.write_bytes(other.windows.read_bytes())
    with pytest.raises(LaminaError, match="have different sizes"):
        load_outputs(run)
