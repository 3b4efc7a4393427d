"""The ASGI application: its routes, its errors and its life."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from lamina import __version__
from lamina.errors import LaminaError, LaminaWarning
from lamina.serving import answering, project
from lamina.serving.batching import Batcher, ClosedError, FullError
from lamina.serving.corrections import Corrections
from lamina.serving.documents import DocumentReader
from lamina.serving.gate import Gate, Log, error_body, to_standard_error
from lamina.serving.improving import Improvement
from lamina.serving.labelling import Labelling
from lamina.serving.metrics import Metrics
from lamina.serving.models import LoadingError, Models, UnknownModelError, names_of
from lamina.serving.service import Shared, State, TooLongError
from lamina.serving.settings import Settings
from lamina.utils.shipped import READER

if TYPE_CHECKING:
    from lamina.reader.load import Reader

PAGE: Final = Path(__file__).parent / "page"
_FILES: Final = {path.name: path for path in sorted(PAGE.iterdir()) if path.suffix in (".js", ".css", ".svg", ".html")}
_KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}


def create_app(
    models: str | list[str] | Mapping[str, Reader] = READER,
    settings: Settings | None = None,
    *,
    label: str | None = None,
    log: Log = to_standard_error,
) -> FastAPI:
    """Return the service as an ASGI application, for `lamina serve` or a server of your own.

    The models load when the server starts; `/ready` says when they have loaded. `app.state.lamina` has the parts.

    >>> app = create_app(["reader", "runs/mine"])  # doctest: +SKIP

    Args:
        models: Run folders, checkpoints or names that `lamina.load` takes, or readers by name. The first is the default.
        settings: Keys, limits and folders; None for the defaults.
        label: A file of questions to label, for the page.
        log: Called with the entry of each request.

    Returns:
        The application.
    """
    settings = settings or Settings()
    given: dict[str, str | Reader] = (
        dict(models) if isinstance(models, Mapping) else dict(names_of([models] if isinstance(models, str) else models))
    )
    state = _state(settings, label)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        warnings.simplefilter("ignore", LaminaWarning)  # they quote texts, which must not be logged
        loading = asyncio.create_task(_load(state, given))
        try:
            yield
        finally:
            state.closing.set()
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            try:
                await state.improvement.stop()
            finally:
                await state.batcher.close()

    app = FastAPI(
        title="Lamina",
        version=__version__,
        description="Quoted answers from your own texts, or an honest answer that they hold none.",
        lifespan=life,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.lamina = state
    _add_about(app)
    _add_page(app)
    app.include_router(answering.routes, tags=["answers"])
    app.include_router(project.routes, tags=["project"])
    _add_errors(app)
    app.add_middleware(Gate, settings=settings, metrics=state.metrics, log=log)
    return app


def _state(settings: Settings, label: str | None) -> State:
    metrics = Metrics()
    return State(
        settings,
        Models(),
        metrics,
        Batcher(settings.budget, settings.limits.waiting, settings.company, metrics, settings.at_once),
        Corrections(settings.project),
        Improvement(settings.project),
        Labelling(label),
        DocumentReader(settings.limits),
    )


async def _load(state: State, given: dict[str, str | Reader]) -> None:
    """Load the models, then answer the questions to label."""
    await state.models.load(given, state.settings)
    if not state.models.ready or state.labelling.data is None:
        return
    try:
        served = state.models.get(kind="spans")
    except UnknownModelError as error:
        state.labelling.failure = LaminaError(str(error))
        return
    await state.labelling.run(served, state.batcher)


def _add_about(app: FastAPI) -> None:
    """Add the routes about the service itself."""

    @app.get("/models", tags=["service"])
    async def models(state: Shared) -> dict[str, Any]:
        """Return the models; the first is the default."""
        state.models.get()
        limits = state.settings.limits
        shown = {"text": limits.text, "question": limits.question, "items": limits.items, "upload": limits.upload}
        return {"models": [one.to_json() for one in state.models.all], "limits": shown, "version": __version__}

    @app.get("/health", tags=["service"])
    async def health() -> dict[str, str]:
        """Return that the process lives."""
        return {"status": "ok"}

    @app.get("/ready", tags=["service"])
    async def ready(state: Shared) -> JSONResponse:
        """Return whether the models are loaded: status 200, or 503 before."""
        return JSONResponse({"ready": state.models.ready}, 200 if state.models.ready else 503)

    @app.get("/metrics", tags=["service"], response_class=PlainTextResponse)
    async def metrics(state: Shared) -> PlainTextResponse:
        """Return counts and times in the text format of Prometheus."""
        return PlainTextResponse(state.metrics.text(state.batcher.open), media_type="text/plain; version=0.0.4")


def _add_page(app: FastAPI) -> None:
    """Add the page and its files. Only files of the package are served, by their names."""

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return _file("index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        if name not in _FILES:
            raise HTTPException(404)
        return _file(name)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return _file("icon.svg")


def _file(name: str) -> Response:
    path = _FILES[name]
    return FileResponse(path, media_type=_KINDS[path.suffix], headers={"cache-control": "no-cache"})


Handler = Callable[[Request, Exception], Awaitable[Response]]


def _add_errors(app: FastAPI) -> None:
    """Turn each kind of error into a status and one line."""

    def reply(kind: type[Exception], status: int, code: str, message: str = "", seconds: int | None = None) -> None:
        async def handle(_: Request, error: Exception) -> Response:
            wait = error.seconds if isinstance(error, FullError) else seconds
            headers = {} if wait is None else {"retry-after": str(wait)}
            return JSONResponse(error_body(code, message or _printable(str(error))), status, headers)

        app.add_exception_handler(kind, handle)

    reply(LaminaError, 422, "invalid")
    reply(TooLongError, 413, "too_long")
    reply(UnknownModelError, 404, "model")
    reply(LoadingError, 503, "loading", "models: are loading. Fix: try again in some seconds", 2)
    reply(FullError, 429, "full", "queue: too many requests wait. Fix: try again after the time in Retry-After")
    reply(ClosedError, 503, "closing", "service: is shutting down. Fix: try again later", 5)
    reply(TimeoutError, 504, "deadline", "request: took too long and was dropped. Fix: send less text at once, or try later")
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)


async def _invalid(_: Request, error: Exception) -> Response:
    """Reply with the first mistake of a body. The input is not repeated: it may be long, or no UTF-8."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])[:100] or str(first["loc"][0])
    message = f"{_printable(where)}: {_printable(str(first['msg'])[:200])}. Fix: see /openapi.json"
    return JSONResponse(error_body("invalid", message), 422)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = {404: "there is no such path", 405: "this path does not take this method"}.get(error.status_code, "is not valid")
    message = f"request: {what}. Fix: see /openapi.json"
    return JSONResponse(error_body("request", message), error.status_code, dict(error.headers or {}))


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
