"""The five studies of papers run whole at the size `smoke`, and their reports have the tables and pictures of the papers."""

from __future__ import annotations

from pathlib import Path

import pytest

import lamina
from lamina.experiments.reports.report import report

# The tables of each paper and the pictures in a report.
SHOWN = {
    "layer-mixers": (("Table 2", "Table 3"), ("pareto", "learning-curves", "overfitting", "layer-weights")),
    "bertvision": (
        ("Table 1", "Table 2", "Table 3", "Table 4", "Table 5", "Figure 6", "Figure 2"),
        ("pareto", "checkpoints", "fractions"),
    ),
    "minbert": (("Section 5.4", "Ablation"), ("classes", "training-loss", "learning-curves", "overfitting")),
    "parameter-efficiency": (("Table 1", "Table 2", "Table 3"), ("pareto",)),
    "korean-qa": (("Table 1", "Table 2", "Table 3", "Table 4"), ("pareto",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_smoke(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    table = lamina.study(name, size="smoke", out=tmp_path / name)
    assert table.failed == {} and table.left == 0
    assert all(row.scores for row in table.rows)
    files = report([tmp_path / name])
    text, names = files[1].read_text(), {file.name for file in files}
    tables, pictures = SHOWN[name]
    paper = text.partition("## Paper ")[2][:3]
    assert [place for place in tables if f"## Paper {paper}, {place}\n" not in text] == []
    assert [picture for picture in pictures if f"{name}-{picture}.svg" not in names] == []
    if name == "korean-qa":
        assert "by question KorQuAD F1" in text
