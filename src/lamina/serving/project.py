"""The routes of the project: corrections, improving, questions to label, runs, and uploaded documents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from lamina.errors import LaminaError
from lamina.serving.answering import MILL, Body, ModelName
from lamina.serving.corrections import FORMATS, Correction
from lamina.serving.improving import FEWEST_QUESTIONS, accept
from lamina.serving.models import open_reader
from lamina.serving.run_tables import RunTables
from lamina.serving.service import Shared
from lamina.utils.extras import TORCH, installed, missing_torch

routes = APIRouter()

MEDIA = {"json": "application/json", "jsonl": "application/jsonl", "csv": "text/csv", "tsv": "text/tab-separated-values"}
MOST_LABELS = 50  # questions to label at once


class Span(Body):
    """Characters of a text, as code points. `end` is after the last."""

    start: int
    end: int


class NewCorrection(Body):
    """The right answer to a question on a text; null if the text does not answer it."""

    model_config = Body.model_config | {
        "json_schema_extra": {
            "examples": [
                {"question": "Who built the mill?", "context": MILL, "title": "mill", "answer": {"start": 46, "end": 55}}
            ]
        }
    }

    question: str
    context: str
    title: str = "text"
    answer: Span | None


class Improve(Body):
    """How long to plan with. `model` is the model to start from."""

    model_config = Body.model_config | {"json_schema_extra": {"examples": [{"minutes": 5}]}}

    minutes: Annotated[float, Field(ge=0.05, le=24 * 60)] = 5.0
    model: ModelName = None


@routes.post("/documents", openapi_extra={"requestBody": {"content": {"application/octet-stream": {}}, "required": True}})
async def read_document(request: Request, state: Shared, name: Annotated[str, Query(max_length=300)]) -> dict[str, Any]:
    """Return the text of a file: the body is its bytes, and `name` has its ending."""
    document = await state.documents.read(name, await request.body())
    return {"name": document.name, "text": document.text, "pages": document.pages}


@routes.get("/project")
async def project(state: Shared) -> dict[str, Any]:
    """Return the corrections and what Improve needs."""
    corrections = await asyncio.to_thread(state.corrections.all)
    return {
        "folder": state.corrections.folder.name,
        "corrections": [one.to_json() for one in corrections],
        "needed": FEWEST_QUESTIONS,
        "formats": FORMATS,
        "trains": installed(TORCH),
    }


@routes.post("/project/corrections")
async def correct(body: NewCorrection, state: Shared) -> dict[str, Any]:
    """Store the right answer to a question."""
    return await _store(body, state, "")


@routes.put("/project/corrections/{name}")
async def change(name: str, body: NewCorrection, state: Shared) -> dict[str, Any]:
    """Change a correction."""
    if all(one.id != name for one in await asyncio.to_thread(state.corrections.all)):
        raise _no_correction()
    return await _store(body, state, name)


async def _store(body: NewCorrection, state: Shared, name: str) -> dict[str, Any]:
    state.check_questions("question", [body.question])
    state.check_questions("title", [body.title])
    state.check_texts([body.context])
    answer = None if body.answer is None else (body.answer.start, body.answer.end)
    correction = Correction(body.title, body.context, body.question, answer, name)
    return (await asyncio.to_thread(state.corrections.add, correction)).to_json()


@routes.delete("/project/corrections/{name}")
async def forget(name: str, state: Shared) -> dict[str, bool]:
    """Remove a correction."""
    if not await asyncio.to_thread(state.corrections.remove, name):
        raise _no_correction()
    return {"removed": True}


def _no_correction() -> LaminaError:
    return LaminaError("correction: there is none with this id. Fix: reload the page")


@routes.get("/project/export")
async def export(state: Shared, format: Annotated[str, Query(max_length=20)] = "json") -> Response:
    """Return all corrections as a file: json (SQuAD), jsonl, csv, tsv or parquet."""
    content = await asyncio.to_thread(state.corrections.export, format)
    headers = {"content-disposition": f'attachment; filename="corrections.{format}"'}
    return Response(content, media_type=MEDIA.get(format, "application/octet-stream"), headers=headers)


@routes.get("/project/labels")
async def labels(state: Shared) -> dict[str, Any]:
    """Return the questions of `lamina label`, the least certain first."""
    return await asyncio.to_thread(state.labelling.to_json, state.corrections, MOST_LABELS)


@routes.post("/project/improve")
async def improve(body: Improve, state: Shared) -> dict[str, Any]:
    """Start to fit the model to the corrections, in another process."""
    served = state.models.get(body.model, kind="spans")
    if not installed(TORCH):
        raise missing_torch("Improve")
    count = len(await asyncio.to_thread(state.corrections.all))
    if count < FEWEST_QUESTIONS:
        fix = f"correct or confirm {FEWEST_QUESTIONS - count} more answers"
        raise LaminaError(f"improve: {count} corrections are too few to fit and to test a model. Fix: {fix}")
    await state.improvement.begin(state.corrections.path, served.name, served.source, body.minutes)
    return state.improvement.to_json()


@routes.get("/project/improve")
async def improvement(state: Shared) -> dict[str, Any]:
    """Return the state of the last improvement."""
    return state.improvement.to_json()


@routes.get("/project/improve/events")
async def events(state: Shared) -> StreamingResponse:
    """Return the state of the improvement after each change, as server-sent events."""

    async def lines() -> AsyncIterator[str]:
        async for event in state.improvement.events(state.closing):
            yield f"data: {json.dumps(event)}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@routes.delete("/project/improve")
async def stop(state: Shared) -> dict[str, Any]:
    """Stop the running improvement."""
    await state.improvement.stop()
    return state.improvement.to_json()


@routes.post("/project/improve/switch")
async def switch(state: Shared) -> dict[str, Any]:
    """Answer with the improved model from now on. The old one stays in the list of models."""
    improvement = state.improvement
    if improvement.stage != "done" or improvement.result is None or improvement.switched:
        raise LaminaError("improve: there is no new model to switch to. Fix: improve first")
    if improvement.result["kept_start"]:
        raise LaminaError(
            "improve: the trained model was not better, so there is nothing to switch to. Fix: correct more answers"
        )
    folder = str(improvement.result["run"])
    reader = await asyncio.to_thread(open_reader, folder, state.settings)
    served = state.models.add(folder.rpartition("/")[2], folder, reader, default=True)
    await asyncio.to_thread(accept, state.settings.project, Path(folder))
    improvement.switched = True
    return {"model": served.name}


@routes.get("/runs")
async def runs(state: Shared) -> dict[str, Any]:
    """Return a table of the finished runs."""
    return {"folder": state.settings.runs.name, "runs": await asyncio.to_thread(RunTables(state.settings.runs).table)}


@routes.get("/runs/details")
async def run_details(state: Shared, name: Annotated[str, Query(max_length=300)]) -> dict[str, Any]:
    """Return the curves and the most confident mistakes of a run."""
    return await asyncio.to_thread(RunTables(state.settings.runs).details, name)
