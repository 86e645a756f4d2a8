# SPDX-License-Identifier: Apache-2.0
"""The pages of ``ttmem serve``: the stored reports, one report, two compared, live charts."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ttmem.base.errors import TtmemError
from ttmem.commands.diff import diff
from ttmem.commands.page_server.live_sources import FollowedLog, sample_counters
from ttmem.profile import profile_file, store
from ttmem.reports import live as live_report
from ttmem.reports import profile_files, report_list


def create_application(token: str, *, log: Path | None = None) -> Starlette:
    """Return the server's app; ``log`` is followed while it runs."""
    followed = FollowedLog(log) if log else None

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if followed:
            followed.start()
        yield
        if followed:
            await run_in_threadpool(followed.stop)

    async def index(_: Request) -> Response:
        return await _render_page(
            lambda: report_list.render_html(str(store.locate_folder()), store.list_reports(), log.name if log else "")
        )

    async def report(request: Request) -> Response:
        path = _find_report(request.path_params["name"]).profile_path
        return await _render_page(lambda: _render_stored(path, path.stat().st_mtime_ns))

    async def compare(request: Request) -> Response:
        names = [request.query_params.get(side, "") for side in ("before", "after")]
        paths = [_find_report(name).profile_path for name in names]
        return await _render_page(lambda: diff(*(profile_file.load(path) for path in paths)).to_html())

    async def remove(request: Request) -> Response:
        name = _find_report(request.path_params["name"]).name
        await run_in_threadpool(store.remove, name)
        return JSONResponse({"removed": name})

    async def listing(_: Request) -> Response:
        return JSONResponse({"reports": await run_in_threadpool(store.list_reports)})

    async def live(_: Request) -> Response:
        return await _render_page(live_report.render_processes_page)

    async def live_samples(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(sample_counters))

    async def follow(_: Request) -> Response:
        return await _render_page(lambda: live_report.render_log_page(_require_log(followed).path.name))

    async def follow_samples(request: Request) -> Response:
        try:
            since = float(request.query_params.get("since", "-1"))
        except ValueError:
            raise HTTPException(400, "'since' is the number of an operation") from None
        return JSONResponse(await run_in_threadpool(_require_log(followed).samples, since))

    async def follow_report(_: Request) -> Response:
        profile = _require_log(followed).profile
        if profile is None:
            raise HTTPException(404, "the log holds no memory state yet")
        return await _render_page(lambda: profile_files.render_html(profile))

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
        exception_handlers={HTTPException: _describe_error, TtmemError: _describe_error, Exception: _describe_error},
        lifespan=lifespan,
    )


def _describe_error(_: Request, error: Exception) -> Response:
    """Answer with the error in one line; never a traceback."""
    if isinstance(error, HTTPException):
        return PlainTextResponse(f"{error.detail}\n", status_code=error.status_code)
    if isinstance(error, TtmemError):
        return PlainTextResponse(f"{error}\n", status_code=422)
    return PlainTextResponse(f"this report cannot be shown: {type(error).__name__}: {error}\n", status_code=500)


async def _render_page(render: Callable[[], str]) -> Response:
    """Render in a thread: a large report must not keep others waiting."""
    text = await run_in_threadpool(render)
    return HTMLResponse(text.encode("utf-8", "replace"))


def _find_report(name: str) -> store.StoredReport:
    report = store.find(name)
    if report is None:
        raise HTTPException(404, "no stored report of that name")
    return report


def _require_log(log: FollowedLog | None) -> FollowedLog:
    if log is None:
        raise HTTPException(404, "no log is followed; start with 'ttmem serve --follow LOG'")
    return log


@lru_cache(maxsize=4)
def _render_stored(path: Path, _: int) -> str:
    """Render the page of this version, whichever version stored the report."""
    return profile_files.render_html(profile_file.load(path))


_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_ANSWERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Accepts requests with the token, on this machine, from a page of this server.

    A token alone is not enough. A page of another site can make a browser request 127.0.0.1; then the name in ``Host``
    is that site's (rebinding), or ``Origin`` is.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer 403 with the reason."""
        if scope["type"] != "http":  # the server's own start and end; it speaks no websocket
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_rules(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_ANSWERS)
            await send(message)

        reason = self._refusal(scope)
        answer = self._app if reason is None else PlainTextResponse(f"refused: {reason}\n", status_code=403)
        await answer(scope, receive, send_with_rules)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if _parse_name(host) not in _NAMES or len(headers.getlist("host")) != 1:
            return "this server answers to 127.0.0.1 and localhost only"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return "the request comes from a page of another site"
        if headers.get("sec-fetch-site") == "cross-site":
            return "the request comes from a page of another site"
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            given = bearer.strip()
        if not hmac.compare_digest(given.encode(), self._token):
            return "the token is missing or wrong; it is in the URL that 'ttmem serve' printed"
        return None


def _parse_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
