# SPDX-License-Identifier: Apache-2.0
"""Requests are accepted with the token, on this machine, from a page of this server.

A token alone is not enough. A page of another site can make a browser ask 127.0.0.1; then the name in ``Host`` is
that site's (rebinding), or ``Origin`` is.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    """Refuses before anything else looks at the request."""

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
        if _name(host) not in _NAMES or len(headers.getlist("host")) != 1:
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


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
