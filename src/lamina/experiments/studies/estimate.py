"""Estimate the time and the disk space of the jobs of a study that are not finished, with `training.cost_estimate`."""

from __future__ import annotations

from typing import TypedDict

from lamina.config.recipe import Recipe
from lamina.errors import LaminaError
from lamina.experiments.studies.plan import Job, Plan
from lamina.experiments.studies.run_study import finished
from lamina.training.cost_estimate import inspect
from lamina.utils.run_folder import Run

SAVED = 4  # bytes of a trained weight in a run folder


class _Inspected(TypedDict, total=False):
    """What is known of a job's cost."""

    minutes: float | None
    run_mb: float | None
    store_gb: float | None
    note: str


class JobCost(TypedDict):
    job: str
    variants: list[str]
    done: bool
    minutes: float | None  # None: unknown, for the reason in `note`
    run_mb: float | None
    store_gb: float | None
    store: str  # jobs with an equal text share the store
    note: str


def estimate(plan: Plan) -> list[JobCost]:
    """Return the costs of all jobs in the order of their work. Runs that differ only in their seed cost the same."""
    known: dict[str, _Inspected] = {}
    return [_cost(plan, job, known) for job in plan.jobs]


def _cost(plan: Plan, job: Job, known: dict[str, _Inspected]) -> JobCost:
    variants = list(dict.fromkeys(one.variant for one in plan.results if one.job == job.key))
    done = finished(job)
    empty: JobCost = {
        "job": job.key, "variants": variants, "done": done, "minutes": None, "run_mb": None, "store_gb": None,
        "store": job.store, "note": "",
    }  # fmt: skip
    if done or job.recipe is None:
        return {**empty, "minutes": 0.0 if done or job.kind == "ensemble" else None, "note": "" if done else job.kind}
    recipe = _without_seed(_startable(plan, job))
    key = recipe.model_dump_json()
    if key not in known:
        known[key] = _inspected(recipe)
    return {**empty, **known[key]}


def _startable(plan: Plan, job: Job) -> Recipe:
    """Return the recipe of a job. A run that is not there yet is replaced by the encoder that it starts from."""
    recipe = job.recipe
    assert recipe is not None
    by_path = {one.path: one for one in plan.jobs}
    while True:
        start = next((one for path, one in by_path.items() if recipe.encoder.model.startswith(str(path))), None)
        if start is None or start.recipe is None or Run(start.path).finished:
            return recipe
        recipe = recipe.model_copy(update={"encoder": start.recipe.encoder})


def _without_seed(recipe: Recipe) -> Recipe:
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"seed": 0})})


def _inspected(recipe: Recipe) -> _Inspected:
    try:
        report = inspect(recipe)
    except LaminaError as error:
        return {"note": str(error)}
    training = report["training"]
    size = SAVED * report["parameters"]["trainable"] / 1e6
    if training is None:
        return {"run_mb": round(size, 1), "note": report.get("note", "")}
    store = training["store"]
    gb = store["gb"] if store is not None and store["fits"] else 0.0
    return {"minutes": training["estimated_minutes"], "run_mb": round(size, 1), "store_gb": gb}


def plan_lines(plan: Plan, costs: list[JobCost]) -> list[str]:
    """Return the plan as text: a line for each job, and the sums. A reason that several jobs share is written once."""
    lines = [f"{plan.study.title}, size {plan.size}: {len(costs)} jobs for {len(plan.variants)} variants, in {plan.out}"]
    shown: set[str] = set()
    for cost in costs:
        state = (
            "done"
            if cost["done"]
            else "about {:g} min".format(cost["minutes"])
            if cost["minutes"] is not None
            else "time unknown"
        )
        names = ", ".join(cost["variants"]) or "for other jobs"
        note = f" ({cost['note']})" if cost["note"] and not cost["done"] and cost["note"] not in shown else ""
        shown.add(cost["note"])
        lines.append(f"  {cost['job']}: {names}: {state}{note}")
    left = [cost for cost in costs if not cost["done"]]
    minutes = sum(cost["minutes"] or 0 for cost in left)
    stores = {cost["store"]: cost["store_gb"] or 0 for cost in left}
    disk = sum(stores.values()) + sum(cost["run_mb"] or 0 for cost in left) / 1000
    unknown = sum(cost["minutes"] is None for cost in left)
    more = f", and {unknown} jobs of unknown time" if unknown else ""
    lines.append(f"left: {len(left)} jobs, about {minutes:.0f} minutes of training here{more}, about {disk:.1f} GB of disk")
    return lines
