"""The page of a study with many runs: its numbers, its size, and that everybody can read it."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from lamina.experiments.compare import compare
from lamina.experiments.reports.comparing import compare_study, judged_together
from lamina.experiments.reports.pictures import pareto_front
from lamina.experiments.reports.report import report
from lamina.experiments.reports.study_results import read_results
from lamina.experiments.reports.tables import paper_tables
from lamina.experiments.studies.results import spread
from tests import tiny
from tests.command import lamina as command
from tests.experiments.reports.browser import opened, violations

ROWS = ("L12", "L6", "L3", "L1", "L0")
SEEDS = (0, 1, 2)
VARIANTS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study with 60 runs: three trained ones, whose copies stand for the others."""
    folder = tmp_path_factory.mktemp("reports") / "study"
    folder.mkdir()
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(8))))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    settings: list[dict[str, object]] = [
        {"train.curves": True, "train.curves_every": 0.5},
        {"train.epochs": 0.2},
        {"mixer.type": "learned"},
    ]
    for number, setting in enumerate(settings):
        lamina.train(folder / "small.toml", folder / "runs" / f"run{number}", settings=setting)
    variants = [*ROWS, *(f"variant {number}" for number in range(VARIANTS - len(ROWS)))]
    results, times = [], {}
    for number, name in enumerate(variants):
        for seed in SEEDS:
            place = f"runs/copy-{number}-{seed}"
            shutil.copytree(folder / "runs" / f"run{min(number, 1) + (number > 4)}", folder / place)
            results.append({"variant": name, "seed": seed, "job": place, "path": place})
        times[f"runs/copy-{number}-0"] = {"seconds": [1.0 + number, 2.0], "examples": 40, "layers": None}
    write_about(folder, variants, results)
    (folder / "times.json").write_text(json.dumps(times))
    (folder / "failed.json").write_text(json.dumps({"lost-seed0": "there was no data. Fix: get some"}))
    return folder


def write_about(folder: Path, variants: list[str], results: list[dict[str, Any]]) -> None:
    study = {"title": "A study of <many> runs", "question": "Does it show them all?", "paper": "003", "baseline": "L12"}
    study["sizes"] = {"smoke": {"differs": "It is small."}}  # type: ignore[assignment]
    named = {name: {"row": f"003/Table 1/{name}"} if name in ROWS else {} for name in variants}
    about = {"study": study, "size": "smoke", "variants": named, "results": results}
    (folder / "study.json").write_text(json.dumps(about))


def test_a_page_of_sixty_runs_is_small_and_everybody_can_read_it(folder: Path, tmp_path: Path) -> None:
    page = report([folder], tmp_path)[0]
    assert page.stat().st_size < 3_000_000
    for options in ({"color_scheme": "light"}, {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}):
        with opened(page, **options) as shown:
            assert violations(shown) == []
            assert shown.title() == "A study of <many> runs"
            assert shown.locator("table").count() >= 3
            assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "it fits on a phone"
            assert all(box["width"] > 100 for box in [one.bounding_box() for one in shown.locator("svg").all()] if box)


def test_the_paper_s_numbers_are_beside_ours(folder: Path) -> None:
    results = read_results(folder)
    (table,) = paper_tables(results)
    assert table.title == "Paper 003, Table 1"
    cells = dict(zip(table.head, table.rows[0], strict=True))
    assert (cells["F1, paper"], cells["EM, paper"], cells["trained parameters, paper"]) == ("76.3", "73.3", "108,311,810")
    scores = json.loads((folder / "runs/copy-0-0/scores.json").read_text())
    assert cells["F1, ours"] == spread([scores["tuned"]["f1"]] * 3)
    assert cells["seeds"] == "3 of 3"


def test_a_comparison_of_one_seed_equals_lamina_compare(folder: Path) -> None:
    """With equal seeds, the mean over the seeds is the run itself."""
    results = read_results(folder)
    (found,) = compare_study(results).found["L6"]
    one = compare(folder / "runs/copy-0-0", folder / "runs/copy-1-0")["overall"]
    wanted = [one[name] for name in ("difference", "low", "high", "p")]
    assert (found.difference, found.low, found.high, found.p) == pytest.approx(wanted)
    assert found.seeds == 3
    assert found.holm is not None and found.p is not None and found.holm >= found.p
    (twin,) = compare_study(results).found["L3"]
    assert (twin.difference, twin.holm) == (found.difference, found.holm), "L3 has the same runs"


def test_all_scores_of_a_table_are_corrected_together(folder: Path) -> None:
    results = read_results(folder)
    (one,) = compare_study(results).found["L6"]
    correlation = replace(one, metric="STS Pearson", p=None)
    found = {
        "L6": [replace(one, p=0.01), correlation, replace(one, metric="EM", p=0.04)],
        "L3": [replace(one, variant="L3", p=0.03)],
    }
    corrected = judged_together(results, found)
    assert [item.holm for item in corrected["L6"]] == [pytest.approx(0.03), None, pytest.approx(0.06)]
    assert [item.holm for item in corrected["L3"]] == [pytest.approx(0.06)]


def test_the_files_agree(folder: Path, tmp_path: Path) -> None:
    files = {path.name: path for path in report([folder], tmp_path)}
    text = files["report.md"].read_text()
    rows = list(csv.reader(files["study-all-variants.csv"].read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 1 + VARIANTS
    for row in rows:
        assert f"| {' | '.join(row)} |" in text
    assert "lost-seed0 failed: there was no data" in text
    assert all(files[name].stat().st_size > 1000 for name in ("study-pareto.png", "study-learning-curves.svg"))


def test_a_missing_baseline_is_said(tmp_path: Path, folder: Path) -> None:
    results = [{"variant": name, "seed": 0, "job": "x", "path": f"runs/{name}"} for name in ("L12", "L6")]
    write_about(tmp_path, ["L12", "L6"], results)
    (tmp_path / "runs").mkdir()
    shutil.copytree(folder / "runs/run0", tmp_path / "runs/L6")
    text = report([tmp_path])[1].read_text()
    assert "no comparison: L12 has no finished run" in text and "0 of 1" in text


def test_no_study_is_one_line(tmp_path: Path) -> None:
    result = command("report", tmp_path)
    assert result.code == 2 and result.err.strip().endswith("Fix: name the folder of `lamina study`")
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(LaminaError, match="damaged"):
        report([tmp_path])


def test_the_front_has_no_point_that_another_beats() -> None:
    points = [(3.0, 50.0), (1.0, 40.0), (2.0, 60.0), (2.0, 55.0), (4.0, 61.0)]
    front = pareto_front(points)
    assert front == [1, 2, 4]
