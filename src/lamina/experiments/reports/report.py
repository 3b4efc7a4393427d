"""Write the report of studies: one HTML page that needs no network, the same as Markdown, its tables as CSV, and pictures.

The folder of a report has these files:

- ``report.html``: the page, with its pictures inside
- ``report.md``: the same text and tables, with links to the pictures
- ``STUDY-TABLE.csv``: each table
- ``STUDY-PICTURE.svg`` and ``.png``: each picture
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from lamina import __version__
from lamina.errors import LaminaError
from lamina.experiments.analysis.results import Analysis
from lamina.experiments.analysis.text import lines as analysis_lines
from lamina.experiments.analyze import analyze
from lamina.experiments.reports.comparing import Comparisons, compare_study
from lamina.experiments.reports.pictures import Picture, pictures_of
from lamina.experiments.reports.study_results import StudyResults, read_results
from lamina.experiments.reports.tables import Table, comparison_table, cost_table, paper_tables
from lamina.experiments.studies.plan import slug
from lamina.scoring.power import sentence
from lamina.utils.extras import needs
from lamina.utils.files import make_folder, write_atomically
from lamina.utils.plots import check_plots

TEMPLATE = Path(__file__).with_name("page.html")
SHORT = 12  # characters of a cell that is never broken into lines
_MISTAKES = "most confident mistakes"  # examples from the data, which a report does not repeat


@dataclass(frozen=True)
class StudyPage:
    """What a page shows of one study."""

    id: str
    title: str
    facts: Sequence[str]
    tables: Sequence[Table]
    pictures: Sequence[Picture]
    failed: Mapping[str, str]
    analysis: str


def report(folders: Sequence[Path], out: Path | None = None) -> list[Path]:
    """Write the report of some studies and return the paths of its files, the page first.

    Args:
        folders: Folders of `lamina study`.
        out: The folder to write. Without it: the folder `report` in the first study.

    Raises:
        LaminaError: A folder is not that of a study, or a library is missing.
    """
    check_plots("lamina report")
    with needs("lamina report", "jinja2", extra="reports"):
        import_module("jinja2")
    if not folders:
        raise LaminaError("lamina report: names no study. Fix: name a folder of `lamina study`")
    pages = [_page(read_results(folder), number) for number, folder in enumerate(folders)]
    out = out or folders[0] / "report"
    make_folder(out)
    files = {"report.html": html_of(pages).encode(), "report.md": markdown_of(pages).encode()}
    for page in pages:
        for table in page.tables:
            files[f"{page.id}-{slug(table.title).lower()}.csv"] = csv_of(table).encode()
        for picture in page.pictures:
            files[f"{page.id}-{picture.name}.svg"] = picture.svg.encode()
            files[f"{page.id}-{picture.name}.png"] = picture.png
    for name, content in files.items():
        write_atomically(out / name, content)
    return [out / name for name in files]


def _page(results: StudyResults, number: int) -> StudyPage:
    comparisons = compare_study(results)
    tables = [*paper_tables(results), comparison_table(results, comparisons), cost_table(results)]
    return StudyPage(
        id=f"{slug(results.out.name).lower()}" if number == 0 else f"{slug(results.out.name).lower()}-{number}",
        title=results.title,
        facts=_facts(results, comparisons),
        tables=tables,
        pictures=pictures_of(results),
        failed=results.failed,
        analysis=_analysis(results),
    )


def _facts(results: StudyResults, comparisons: Comparisons) -> list[str]:
    """Return what a reader needs to know before the tables."""
    size = results.about["sizes"][results.size]
    done = sum(bool(one.seeds) for one in results.variants.values())
    whole = sum(len(one.seeds) == one.asked for one in results.variants.values())
    facts = [results.about["question"], f"Size: {results.size}. {size['differs']}".strip()]
    if results.settings:
        facts.append(f"All runs have these settings too: {', '.join(results.settings)}.")
    facts.append(f"{done} of {len(results.variants)} variants have scores; {whole} have all of their seeds.")
    facts.append(_verdicts(comparisons))
    facts.append(
        "What the study can see is not known: its baseline has fewer than two seeds, or no questions."
        if comparisons.power is None
        else sentence(comparisons.power)
    )
    return [fact for fact in facts if fact]


def _verdicts(comparisons: Comparisons) -> str:
    """Return the verdicts in one sentence each."""
    found = [one for several in comparisons.found.values() for one in several]
    told = [
        f"{one.variant} is {one.words} ({one.difference:+.3g} {one.metric})"
        for one in found
        if one.verdict in ("better", "worse")
    ]
    open_ones = [one.variant for one in found if one.verdict not in ("better", "worse")]
    sentences = [f"{'; '.join(told)}." if told else "No variant is distinguishable from its baseline." if found else ""]
    if told and open_ones:
        sentences.append(f"These are not distinguishable from their baselines: {', '.join(dict.fromkeys(open_ones))}.")
    return " ".join(part for part in sentences if part)


def _analysis(results: StudyResults) -> str:
    """Return what `lamina analyze` finds in the baseline and the best variant, without examples from the data."""
    base = results.variants.get(results.about["baseline"])
    if base is None or not base.seeds:
        return ""
    same = set(base.seeds[0].scores)
    others = [one for one in results.variants.values() if one.seeds and set(one.seeds[0].scores) == same and one is not base]
    others = [one for one in others if not one.seeds[0].is_ensemble and one.seeds[0].path != base.seeds[0].path]
    best = max(others, key=lambda one: one.mean(results.score) or 0.0, default=None)
    names = {str(one.seeds[0].path): f"{one.name}, seed {one.seeds[0].seed}" for one in (base, best) if one is not None}
    try:
        found = analysis_lines(_named(analyze([Path(path) for path in names]), names))
    except LaminaError as error:
        return f"no analysis: {error}"
    kept, skipping = [], False
    for line in found:
        skipping = (
            (skipping or _MISTAKES in line or "greatest differences" in line)
            and bool(line.strip())
            and not line.startswith("==")
        )
        if not skipping:
            kept.append(line)
    return "\n".join(kept)


def _named(analysis: Analysis, names: Mapping[str, str]) -> Analysis:
    """Return an analysis with the names of variants instead of folders."""
    runs = [replace(one, run=names.get(one.run, one.run)) for one in analysis.runs]
    overlaps = [replace(one, a=names.get(one.a, one.a), b=names.get(one.b, one.b)) for one in analysis.overlaps]
    return Analysis(runs, overlaps)


def html_of(pages: Sequence[StudyPage]) -> str:
    """Return the page of some studies, as HTML without links to other hosts."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True)
    title = pages[0].title if len(pages) == 1 else "Studies"
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return str(template.render(title=title, studies=pages, version=__version__, kind=kind_of_cell, head_kind=kind_of_head))


def kind_of_cell(cell: str) -> str:
    """Return the class of a cell in the page.

    >>> kind_of_cell("60.1 ±0.4"), kind_of_cell("better than L12"), kind_of_cell("Table 1"), kind_of_cell("not distinguishable")
    ('number', 'better', 'short', '')
    """
    word = cell.partition(" ")[0]
    if word in ("better", "worse"):
        return word
    if re.fullmatch(r"[-+<±\d., e]*\d( of \d+)?|[-+±\d. ]+ to [-+\d.]+", cell):
        return "number"
    return "short" if len(cell) < SHORT else ""


def kind_of_head(table: Table, column: int) -> str:
    """Return the class of a column's heading: that of numbers if all cells are numbers or empty, but not all are empty."""
    kinds = {kind_of_cell(row[column]) for row in table.rows if row[column]}
    return "number" if kinds == {"number"} else ""


def markdown_of(pages: Sequence[StudyPage]) -> str:
    """Return the same as Markdown."""
    found = []
    for page in pages:
        found += [f"# {page.title}", "", *(line for fact in page.facts for line in (fact, ""))]
        for table in page.tables:
            rows = [table.head, ["---"] * len(table.head), *table.rows]
            found += [f"## {table.title}", "", *(f"| {' | '.join(_escaped(cell) for cell in row)} |" for row in rows), ""]
            found += [table.note, ""] if table.note else []
        for picture in page.pictures:
            found += [f"![{picture.title}]({page.id}-{picture.name}.svg)", ""]
        found += [f"- {key} failed: {reason}" for key, reason in page.failed.items()]
        if page.analysis:
            found += ["## Where the baseline and the best variant are right and wrong", "", "```", page.analysis, "```", ""]
    return "\n".join(found).rstrip() + "\n"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def csv_of(table: Table) -> str:
    """Return a table as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.head, *table.rows])
    return text.getvalue()
