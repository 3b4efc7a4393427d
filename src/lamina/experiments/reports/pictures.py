"""Draw the pictures of a report with matplotlib.

Colours are those of Okabe and Ito, which colour-blind readers see as different. Every series has its own mark too.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lamina.config.paper_rows import PaperNumber
from lamina.experiments.reports.study_results import Curves, StudyResults, VariantResult, read_run_curves
from lamina.experiments.studies.study_file import rows_by_name
from lamina.utils.plots import check_plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")
_DPI: Final = 110
_SPLITS: Final = {"train": "training split", "dev": "dev set", "held out": "held-out split"}
_METRICS: Final = {"f1": "F1", "exact": "EM", "balanced_f1": "balanced F1", "pearson": "Pearson"}
_Lines = Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Picture:
    """A picture as SVG and PNG, with its text for readers who do not see it.

    `name` is that of its files. `columns` is the number of panels beside each other.
    """

    name: str
    title: str
    text: str
    svg: str
    png: bytes
    columns: int = 1


def pictures_of(results: StudyResults) -> list[Picture]:
    """Return all pictures that the study has numbers for."""
    check_plots("lamina report")
    made = (_pareto, _learning, _losses, _memory, _fractions, _checkpoints, _layers, _classes)
    return [picture for make in made for picture in make(results)]


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the numbers of the points that no other point beats in both cost (lower) and score (higher), by cost.

    >>> pareto_front([(1, 50), (2, 60), (3, 55), (3, 70)])
    [0, 1, 3]
    """
    best, front = float("-inf"), []
    for number in sorted(range(len(points)), key=lambda n: (points[n][0], -points[n][1])):
        if points[number][1] > best:
            best = points[number][1]
            front.append(number)
    return front


def _pareto(results: StudyResults) -> Iterator[Picture]:
    """Yield F1 against each cost, with the front."""
    score = results.score
    costs: Mapping[str, Callable[[VariantResult], float | None]] = {
        "trained parameters": lambda one: None if one.parameters is None else float(one.parameters),
        "minutes of training": lambda one: one.minutes,
        "seconds of inference for 1,000 examples": lambda one: one.inference,
    }
    found: dict[str, dict[str, tuple[float, float, VariantResult]]] = {}
    for cost, value in costs.items():
        for one in results.variants.values():
            if one.is_point_of_a_curve:
                continue
            x, y = value(one), one.mean(score)
            if x is not None and x > 0 and y is not None:
                found.setdefault(cost, {})[one.name] = (x, y, one)
    found = {cost: points for cost, points in found.items() if len(points) > 1}
    if not found:
        return
    words = [f"{cost}: the front is {', '.join(_front_names(points))}" for cost, points in found.items()]
    names = list(dict.fromkeys(name for points in found.values() for name in points))
    with _figure(len(found), 4.2, key=len(names)) as (axes, finish):
        for panel, (cost, points) in zip(axes, found.items(), strict=True):
            _draw_pareto(panel, cost, score, points, names)
    yield finish("pareto", f"{score} against costs", ". ".join(words) + ".")


def _look(number: int) -> tuple[str, str]:
    """Return the colour and the mark of a series. The first 49 series have different pairs."""
    return COLOURS[number % 7], MARKS[(number + number // 7) % 7]


def _front_names(points: Mapping[str, tuple[float, float, VariantResult]]) -> list[str]:
    names = list(points)
    return [names[number] for number in pareto_front([(x, y) for x, y, _ in points.values()])]


def _draw_pareto(
    panel: Axes, cost: str, score: str, points: Mapping[str, tuple[float, float, VariantResult]], names: Sequence[str]
) -> None:
    """Draw the points of one cost. Those of the front have their names; the key of the figure names all."""
    front = _front_names(points)
    panel.plot(
        [points[name][0] for name in front], [points[name][1] for name in front], color="#888888", linestyle="--", zorder=1
    )
    for name, (x, y, one) in points.items():
        colour, mark = _look(names.index(name))
        panel.scatter([x], [y], color=colour, marker=mark, zorder=2, label=name)
        found = one.efficiency(y) if (cost, score) == ("trained parameters", "F1") else None
        if name in front:
            label = name if found is None else f"{name} ({found:.2f})"
            left = x > (max(one[0] for one in points.values()) * min(one[0] for one in points.values())) ** 0.5
            place = {"xytext": (-5, 4), "ha": "right"} if left else {"xytext": (5, 4), "ha": "left"}
            panel.annotate(label, (x, y), textcoords="offset points", fontsize=7, **place)
    panel.margins(x=0.15, y=0.15)  # room for the labels
    if cost == "trained parameters":
        from matplotlib.ticker import EngFormatter, NullFormatter

        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(EngFormatter(sep=" "))
        panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set(
        xlabel=cost + (" (efficiency in brackets)" if cost == "trained parameters" and score == "F1" else ""), ylabel=score
    )


def _curves(results: StudyResults) -> dict[str, Curves]:
    """Return the curves of the first seed of each trained variant; runs that variants share are there once."""
    found: dict[str, Curves] = {}
    seen = set()
    for one in results.variants.values():
        runs = [seed.path for seed in one.seeds if not seed.is_ensemble and not one.variant.checkpoint]
        if runs and runs[0] not in seen:
            seen.add(runs[0])
            found[one.name] = read_run_curves(runs[0])
    return found


def _learning(results: StudyResults) -> Iterator[Picture]:
    """Yield the loss, EM and F1 of the dev set by step, or what was recorded of the held-out split."""
    curves = _curves(results)
    panels: dict[str, dict[str, Sequence[tuple[float, float]]]] = {}
    for split in ("dev", "held out"):
        for name, one in curves.items():
            for metric, splits in one.scores.items():
                if split in splits and "threshold" not in metric and metric != "mean":
                    panels.setdefault(f"{_SPLITS[split]}: {_metric(metric)}", {})[name] = splits[split]
        if panels:
            break
    if panels:
        yield from _line_pictures("learning-curves", "Learning curves", panels, "step")


def _metric(name: str) -> str:
    """Return the title of a metric with the name that metrics.jsonl has.

    >>> _metric("balanced_f1"), _metric("mood.loss")
    ('balanced F1', 'mood loss')
    """
    *task, metric = name.split(".")
    return " ".join([*task, _METRICS.get(metric, metric.replace("_", " "))])


def _losses(results: StudyResults) -> Iterator[Picture]:
    """Yield the training loss by step."""
    lines = {name: one.loss for name, one in _curves(results).items() if len(one.loss) > 1}
    if lines:
        yield from _line_pictures("training-loss", "Loss of the training steps", {"training loss": lines}, "step")


def _memory(results: StudyResults) -> Iterator[Picture]:
    """Yield the scores of the training split and of the dev set of the baseline and of the longest runs: do they overfit?"""
    panels = {}
    for name, one in _curves(results).items():
        for metric in ("loss", "f1", "F1", "mean"):
            both = one.scores.get(metric, {})
            if "train" in both and ("dev" in both or "held out" in both):
                panels[f"{name}: {_metric(metric)}"] = {_SPLITS[split]: both[split] for split in both}
    chosen = dict(list(panels.items())[-6:])
    if chosen:
        yield from _line_pictures("overfitting", "Training split and dev set", chosen, "step")


def _fractions(results: StudyResults) -> Iterator[Picture]:
    """Yield the score by the share of the training data, ours and the paper's."""
    members = [one for one in results.variants.values() if "data.fraction=" in " ".join(one.variant.set)]
    ours = [(_fraction(one), value) for one in members if (value := one.mean(results.score)) is not None]
    paper = [(_fraction(one), value) for one in members if (value := _paper_f1(one)) is not None]
    if ours:
        lines = {"ours": sorted(ours), "paper": sorted(paper)} if paper else {"ours": sorted(ours)}
        yield from _line_pictures(
            "fractions", "Share of the training data", {results.score: lines}, "percent of the training data"
        )


def _fraction(one: VariantResult) -> float:
    return 100 * next(float(text.partition("=")[2]) for text in one.variant.set if text.startswith("data.fraction="))


def _checkpoints(results: StudyResults) -> Iterator[Picture]:
    """Yield the score after each part of an epoch, ours and the paper's."""
    members = [one for one in results.variants.values() if one.variant.checkpoint and not one.variant.row.count("Table 4")]
    ours = [(float(one.variant.checkpoint), value) for one in members if (value := one.mean("F1")) is not None]
    paper = [(float(one.variant.checkpoint), value) for one in members if (value := _paper_f1(one)) is not None]
    if len(set(ours)) > 1:
        lines = {"ours": sorted(set(ours)), "paper": sorted(set(paper))} if paper else {"ours": sorted(set(ours))}
        yield from _line_pictures("checkpoints", "After a part of an epoch", {"F1": lines}, "epochs of fine-tuning")


def _paper_f1(one: VariantResult) -> float | None:
    numbers: Sequence[PaperNumber] = rows_by_name()[one.rows[0]][0].numbers if one.rows else ()
    found = next((number for number in numbers if number.metric == "f1"), None)
    return None if found is None else 100 * found.value if found.unit == "fraction" else found.value


def _layers(results: StudyResults) -> Iterator[Picture]:
    """Yield the mean weights of the layers at the answers."""
    panels: dict[str, dict[str, Sequence[tuple[float, float]]]] = {}
    for one in results.variants.values():
        if one.layers:
            for end in ("start", "end"):
                panels.setdefault(f"weight for the {end}", {})[one.name] = list(
                    zip(one.layers["layers"], one.layers[end], strict=True)
                )
    if panels:
        yield from _line_pictures("layer-weights", "Weights of the layers at the answers", panels, "layer")


def _classes(results: StudyResults) -> Iterator[Picture]:
    """Yield the shares of the classes in the data and among the predictions, for each sentence task."""
    from lamina.experiments.analysis.results import ClassAnalysis, ScoreAnalysis
    from lamina.experiments.analyze import analyze

    kinds = [name for one in results.variants.values() for seed in one.seeds[:1] for name in seed.scores]
    if not any(name.endswith((" accuracy", " Pearson")) for name in kinds):
        return
    runs = [one.seeds[0].path for one in results.variants.values() if one.seeds]
    names = [one.name for one in results.variants.values() if one.seeds]
    panels: dict[str, dict[str, Mapping[str, float]]] = {}
    for name, run in zip(names, analyze(runs).runs, strict=True):
        for task, found in run.tasks.items():
            if isinstance(found, ClassAnalysis | ScoreAnalysis):
                panels.setdefault(task, {"dev set": found.gold})[name] = found.predicted
    with _figure(len(panels), 4.2) as (axes, finish):
        for panel, (task, series) in zip(axes, panels.items(), strict=True):
            labels = list(next(iter(series.values())))
            width = 0.8 / len(series)
            for number, (name, shares) in enumerate(series.items()):
                places = [place + (number - (len(series) - 1) / 2) * width for place in range(len(labels))]
                panel.bar(
                    places, [shares.get(label, 0.0) for label in labels], width, label=name, color=COLOURS[(number - 1) % 7]
                )
            panel.set_xticks(range(len(labels)), labels)
            panel.set(title=task, ylabel="share")
            panel.legend(fontsize=7)
    yield finish("classes", "Shares of the classes", "The shares of the classes in the dev set and among the predictions.")


def _line_pictures(name: str, title: str, panels: Mapping[str, _Lines], x: str) -> Iterator[Picture]:
    """Yield one picture with a panel for each title and a line for each series."""
    names = list(dict.fromkeys(series for lines in panels.values() for series in lines))
    with _figure(min(3, len(panels)), 3.4, rows=-(-len(panels) // 3), key=len(names)) as (axes, finish):
        for panel, (heading, lines) in zip(axes, panels.items(), strict=False):
            for series, points in lines.items():
                number = names.index(series)
                colour, look = _look(number)
                mark = look if len(points) < 30 else None
                style = ("-", "--", ":")[number // 7 % 3]
                xs, ys = [point[0] for point in points], [point[1] for point in points]
                panel.plot(xs, ys, style, marker=mark, markersize=3, linewidth=1, color=colour, label=series)
            panel.set(title=heading, xlabel=x)
            if x in ("step", "layer"):
                panel.xaxis.get_major_locator().set_params(integer=True)
    ends = [
        f"{heading}, {series}: {points[-1][1]:.4g}"
        for heading, lines in panels.items()
        for series, points in lines.items()
        if points
    ]
    yield finish(name, title, f"Last points: {'; '.join(ends[:40])}.")


@contextmanager
def _figure(
    columns: int, height: float, rows: int = 1, key: int = 0
) -> Iterator[tuple[list[Axes], Callable[[str, str, str], Picture]]]:
    """Yield the panels of a new figure, and the function that returns it as a picture after the block.

    `key` is the number of series that a key below all panels explains.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made: dict[str, Any] = {}

    def finish(name: str, title: str, text: str) -> Picture:
        return Picture(name, title, text, _svg(made["svg"], name), made["png"], columns)

    settings: dict[Any, Any] = {"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "lamina", "font.size": 9}
    with rc_context(settings):
        wide = max(1, round(1.9 * columns))  # series in a line of the key
        lines = -(-key // wide)
        figure = Figure(figsize=(4.6 * columns, height * rows + 0.2 * lines), layout="constrained", facecolor="white")
        axes = [panel for line in figure.subplots(rows, columns, squeeze=False) for panel in line]
        yield axes, finish
        for panel in axes:
            panel.grid(alpha=0.25)
            if not panel.has_data():
                panel.set_visible(False)
        if key:
            shown = {text: line for panel in axes for line, text in zip(*panel.get_legend_handles_labels(), strict=True)}
            figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=wide, fontsize=8, frameon=False)
        FigureCanvasAgg(figure)
        svg, png = io.StringIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.savefig(png, format="png", dpi=_DPI)
        made |= {"svg": svg.getvalue(), "png": png.getvalue()}


def _svg(text: str, name: str) -> str:
    """Return an SVG for the inside of a page: without header and metadata, and with ids that no other picture has."""
    body = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    for mark in ('id="', 'href="#', "url(#"):
        body = body.replace(mark, f"{mark}{name}-")
    return body
