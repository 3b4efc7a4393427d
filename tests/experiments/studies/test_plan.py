"""The plan of a study: which runs there are, which are shared, and in which order they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.config.bundled import recipe_names, studies_folder, study_path
from lamina.config.paper_rows import encoder_settings
from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.errors import LaminaError
from lamina.experiments.studies.estimate import estimate, plan_lines
from lamina.experiments.studies.plan import Plan, Stamp, plan_study
from lamina.experiments.studies.run_study import stamp_of
from lamina.experiments.studies.study_file import SIZES, Study, read_study

TINY = ("encoder.model=tiny", "encoder.pretrained=false", "data.train=fables/train", "data.dev=fables/dev")
NAMES = recipe_names(studies_folder())


def study(variants: dict[str, object], **more: object) -> Study:
    """Return a study of the quickstart recipe with these variants."""
    sizes = {"desk": {"set": TINY, "seeds": (0, 1)}}
    values = {"title": "Test", "recipe": "quickstart", "baseline": next(iter(variants)), "sizes": sizes, "variants": variants}
    return Study.model_validate({**values, **more})


def planned(variants: dict[str, object], **more: object) -> Plan:
    return plan_study(study(variants, **more), "desk", Path("out"))


def test_variants_have_one_run_for_each_seed() -> None:
    plan = planned({"base": {}, "slow": {"set": ["train.lr=1e-5"]}})
    assert [(one.variant, one.seed) for one in plan.results] == [("base", 0), ("slow", 0), ("base", 1), ("slow", 1)]
    assert [job.recipe.train.seed for job in plan.jobs if job.recipe] == [0, 0, 1, 1]
    assert len({job.path for job in plan.jobs}) == 4


def test_equal_settings_share_a_run() -> None:
    plan = planned({"base": {}, "same": {"set": ["train.epochs=1"]}, "other": {"set": ["train.epochs=0.5"]}})
    assert len(plan.jobs) == 4  # the quickstart recipe has one epoch
    first = {one.variant: one.path for one in plan.results if one.seed == 0}
    assert first["base"] == first["same"] != first["other"]


def test_a_changed_setting_or_file_changes_the_folder_and_nothing_else() -> None:
    one, other = (planned({"base": {"set": [f"train.lr={rate}"]}}).jobs[0].key for rate in (1e-4, 2e-4))
    assert one != other
    stamps: list[Stamp] = [lambda name: "a", lambda name: "b"]
    a, b = (plan_study(study({"base": {}}), "desk", Path("out"), stamp=stamp).jobs[0].key for stamp in stamps)
    assert a != b
    moved = [plan_study(study({"base": {}}), "desk", Path(out)).jobs[0].key for out in ("out", "elsewhere/out")]
    assert moved[0] == moved[1]


def test_a_run_follows_the_run_that_is_its_encoder() -> None:
    variants = {"head": {"encoder": "tuned", "set": ["tune.layers=0"]}, "tuned": {"checkpoint": "0.5"}}
    plan = planned(variants)
    keys = [job.key for job in plan.jobs]
    for job in plan.jobs:
        assert all(keys.index(needed) < keys.index(job.key) for needed in job.needs)
    head = next(job for job in plan.jobs if job.key.startswith("head-seed1"))
    assert head.recipe is not None and head.needs == (next(key for key in keys if key.startswith("tuned-seed1")),)
    assert head.recipe.encoder.model.endswith("checkpoints/0.5") and head.recipe.encoder.pretrained
    changed = planned({**variants, "tuned": {"checkpoint": "0.5", "set": ["train.lr=1e-5"]}})
    assert {job.key for job in changed.jobs}.isdisjoint(keys), "the fingerprint of a head covers its encoder"


def test_runs_of_one_store_follow_each_other() -> None:
    frozen = {"set": ["tune.layers=0"]}
    plan = planned(
        {"base": {}, "a": frozen, "live": {"set": ["tune.layers=1"]}, "b": {"set": ["tune.layers=0", "train.lr=1e-3"]}}
    )
    stores = [(job.seed, job.store) for job in plan.jobs]
    assert len(set(stores)) == len([n for n, one in enumerate(stores) if n == 0 or one != stores[n - 1]])


def test_fractions_checkpoints_and_ensembles() -> None:
    variants = {
        "base": {},
        "some": {"fractions": [0.5, 1.0], "most_seeds": 1},
        "after": {"checkpoints": ["0.5"]},
        "both": {"ensemble": ["base", "some, 50%"]},
    }
    plan = planned(variants)
    assert list(plan.variants) == ["base", "some, 50%", "some, 100%", "after, 0.5 epochs", "both"]
    assert [one.seed for one in plan.results_of("some, 50%")] == [0]
    assert plan.results_of("after, 0.5 epochs")[0].path == plan.results_of("base")[0].path / "checkpoints" / "0.5"
    ensemble = next(job for job in plan.jobs if job.kind == "ensemble")
    assert ensemble.members == tuple(plan.results_of(name)[0].path for name in ("base", "some, 50%"))


def test_steps_are_planned_before_the_runs_that_read_them() -> None:
    steps = {"two": {"command": ["data", "contexts", "fables/dev", "--bm25", "2"], "ending": ".jsonl"}}
    plan = planned({"base": {"set": ["data.train={two}"]}}, steps=steps)
    assert [job.kind for job in plan.jobs] == ["step", "train", "train"]
    assert plan.jobs[1].recipe is not None and plan.jobs[1].recipe.main.data.train == str(plan.jobs[0].path)


@pytest.mark.parametrize(
    ("variants", "more", "message"),
    [
        ({"a": {"encoder": "b"}}, {}, "is no variant. Fix: name one of a"),
        ({"a": {"row": "003/Table 9/L1"}}, {}, "is no row with a recipe"),
        ({"a": {"set": ["@fast"]}}, {}, "there is no group 'fast'"),
        ({"a": {"set": ["encoder.model={english}"]}}, {}, "there is no {english}"),
        ({"a": {"set": ["train.epoch=1"]}}, {}, r"study, a: train.epoch: no such field"),
        ({"a": {"encoder": "b"}, "b": {"encoder": "a"}}, {}, "needs itself"),
        ({"a": {}}, {"recipe": ""}, "has neither a row nor a recipe"),
    ],
)
def test_mistakes_have_one_line(variants: dict[str, object], more: dict[str, object], message: str) -> None:
    with pytest.raises((LaminaError, ValueError)) as caught:
        planned(variants, **more)
    assert message in str(caught.value)


def test_unknown_sizes_variants_and_encoders() -> None:
    one = study({"a": {}})
    for arguments, message in (
        ({"size": "paper"}, "has no size 'paper'. Fix: choose one of desk"),
        ({"size": "desk", "only": ["b"]}, "has no variant 'b' at this size. Fix: choose one of a"),
        ({"size": "desk", "encoders": {"x": "y"}}, "has no encoder 'x'"),
    ):
        with pytest.raises(LaminaError, match=message):
            plan_study(one, out=Path("out"), **arguments)


def test_a_mistake_in_the_file_names_its_place(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('title = "x"\nbaseline = "a"\n[variants.a]\nsettings = ["train.epochs=1"]\n')
    with pytest.raises(LaminaError, match=r"study\.toml, variants\.a\.settings: .*\. Fix: see docs/studies\.md"):
        read_study(file)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_every_study_can_be_planned_at_every_size(name: str, size: str) -> None:
    one = read_study(study_path(name))
    plan = plan_study(one, size, Path("out"), name=name)  # type: ignore[arg-type]
    assert one.baseline in plan.variants
    trained = [job.recipe for job in plan.jobs if job.recipe is not None]
    if size == "paper":
        rows = [row for variant in plan.variants.values() for row in (variant.row, *variant.rows)]
        assert rows and all(row.startswith(one.paper) for row in rows if row)
        assert {recipe.encoder.model for recipe in trained}.isdisjoint(encoder_settings()), "presets have no weights"
    if size == "desk":
        assert all(
            len(plan.results_of(variant)) >= (1 if plan.variants[variant].most_seeds else 3) for variant in plan.variants
        )
    if size == "smoke":
        assert {"tiny"} == {recipe.encoder.model for recipe in trained if "/" not in recipe.encoder.model}


def test_the_five_papers_have_a_study() -> None:
    assert {read_study(study_path(name)).paper for name in NAMES} == {"000", "001", "002", "003", "004"}


def test_a_thousand_runs_are_planned_with_few_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test never measures time: a recipe is parsed once for each variant, whatever the number of seeds."""
    parsed = []

    def counted(*args: Any, **more: Any) -> Recipe:
        parsed.append(args)
        return parse_recipe(*args, **more)

    monkeypatch.setattr("lamina.experiments.studies.plan.parse_recipe", counted)
    plan = plan_study(
        study({f"v{n}": {"set": [f"train.lr={n + 1}e-6"]} for n in range(20)}), "desk", Path("out"), seeds=range(50)
    )
    assert len(plan.jobs) == 1000
    assert len(parsed) == 20


def test_new_weights_of_an_encoder_or_new_data_make_a_new_run(tmp_path: Path) -> None:
    data, encoder = tmp_path / "train.jsonl", tmp_path / "encoder"
    encoder.mkdir()
    weights = encoder / "model.safetensors"
    variants: dict[str, object] = {
        "base": {"set": [f"data.train={data}", f"encoder.model={encoder}", "encoder.pretrained=true"]}
    }
    keys = []
    for file in (data, weights, weights, data):
        for one in (data, weights):
            one.touch()
        file.write_text(file.read_text() + "changed")
        keys.append(plan_study(study(variants), "desk", tmp_path / "out", stamp=stamp_of).jobs[0].key)
    assert len(set(keys)) == 4, "in one process, as in a notebook"


def test_a_reason_that_several_jobs_share_is_written_once(tmp_path: Path) -> None:
    plan = planned({"base": {"set": [f"encoder.model={tmp_path}/none"]}})
    lines = plan_lines(plan, estimate(plan))
    assert [f"{tmp_path}/none" in line for line in lines] == [False, True, False, False]
    assert lines[2].endswith("time unknown")
