# SPDX-License-Identifier: Apache-2.0
"""The addresses of ``ttmem serve``: the stored reports, one report, two compared, what grows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ttmem.base.errors import TtmemError
from ttmem.commands.library.diff import diff
from ttmem.commands.page_server.guard import Guard
from ttmem.commands.page_server.watching import FollowedLog, live_sample
from ttmem.profile import profile_file, store
from ttmem.reports.live import html as live_html
from ttmem.reports.profile import html
from ttmem.reports.report_list import html as stored_html


def application(token: str, *, log: Path | None = None) -> Starlette:
    """The server's app; ``log`` is followed while it runs."""
    followed = FollowedLog(log) if log else None

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if followed:
            followed.start()
        yield
        if followed:
            await run_in_threadpool(followed.stop)

    async def index(_: Request) -> Response:
        return await _page(lambda: stored_html.render(str(store.folder()), store.listing(), log.name if log else ""))

    async def report(request: Request) -> Response:
        return await _page(lambda: _report(_stored(request.path_params["name"])))

    async def compare(request: Request) -> Response:
        names = [request.query_params.get(side, "") for side in ("before", "after")]
        paths = [_stored(name).profile_path for name in names]
        return await _page(lambda: diff(*(profile_file.load(path) for path in paths)).to_html())

    async def remove(request: Request) -> Response:
        name = _stored(request.path_params["name"]).name
        await run_in_threadpool(store.remove, name)
        return JSONResponse({"removed": name})

    async def listing(_: Request) -> Response:
        return JSONResponse({"reports": await run_in_threadpool(store.listing)})

    async def live(_: Request) -> Response:
        return await _page(live_html.processes)

    async def live_samples(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(live_sample))

    async def follow(_: Request) -> Response:
        return await _page(lambda: live_html.growing_log(_followed(followed).path.name))

    async def follow_samples(request: Request) -> Response:
        try:
            since = float(request.query_params.get("since", "-1"))
        except ValueError:
            raise HTTPException(400, "'since' is the number of an operation") from None
        return JSONResponse(await run_in_threadpool(_followed(followed).samples, since))

    async def follow_report(_: Request) -> Response:
        profile = _followed(followed).profile
        if profile is None:
            raise HTTPException(404, "the log holds no memory state yet")
        return await _page(lambda: html.render(profile))

    return Starlette(
        routes=[
            Route("/", index),
            Route("/report/{name}", report),
            Route("/compare", compare),
            Route("/live", live),
            Route("/follow", follow),
            Route("/follow/report", follow_report),
            Route("/api/reports", listing),
            Route("/api/reports/{name}", remove, methods=["DELETE"]),
            Route("/api/live", live_samples),
            Route("/api/follow", follow_samples),
        ],
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={HTTPException: _told, TtmemError: _told, Exception: _told},
        lifespan=lifespan,
    )


def _told(_: Request, error: Exception) -> Response:
    """Answer with the error in one line; never a traceback."""
    if isinstance(error, HTTPException):
        return PlainTextResponse(f"{error.detail}\n", status_code=error.status_code)
    if isinstance(error, TtmemError):
        return PlainTextResponse(f"{error}\n", status_code=422)
    return PlainTextResponse(f"this report cannot be shown: {type(error).__name__}: {error}\n", status_code=500)


async def _page(render: Callable[[], str]) -> Response:
    """Rendered beside the loop: a large report must not keep others waiting."""
    text = await run_in_threadpool(render)
    return HTMLResponse(text.encode("utf-8", "replace"))


def _stored(name: str) -> Any:
    report = store.find(name)
    if report is None:
        raise HTTPException(404, "no stored report of that name")
    return report


def _followed(log: FollowedLog | None) -> FollowedLog:
    if log is None:
        raise HTTPException(404, "no log is followed; start with 'ttmem serve --follow LOG'")
    return log


def _report(report: Any) -> str:
    return _rendered(report.profile_path, report.profile_path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _rendered(path: Path, _: int) -> str:
    """With this ttmem's page, whichever version stored the report."""
    return html.render(profile_file.load(path))
