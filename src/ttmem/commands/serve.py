# SPDX-License-Identifier: Apache-2.0
"""``ttmem serve``: Browse, compare and follow reports in a browser."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from pathlib import Path
from urllib.parse import quote

import click

from ttmem.base.errors import BadInputError, MissingPartError
from ttmem.base.extras import install_command
from ttmem.commands.command_line import verb
from ttmem.commands.options import path_option, quiet_option
from ttmem.commands.output import emit, note

_HOST = "127.0.0.1"
_PORT = 8000


@verb("""
ttmem serve
ttmem serve bert --no-open
ttmem serve --port 9000 --follow run.log
""")
@click.argument("name", required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="P", help=f"Default: {_PORT}, or a free one; 0: a free one."
)
@path_option("--follow", metavar="LOG", help="Also follow a growing log as a live chart.")
@click.option(
    "--open/--no-open", "wants_open", default=None, help="Open a browser; default: at a terminal with a screen."
)
@quiet_option
def command(name: str | None, port: int | None, follow: Path | None, wants_open: bool | None, quiet: bool) -> None:
    """List, search, open, compare and delete the stored reports in a browser; NAME opens one of them.

    The server listens on 127.0.0.1 only and requires the token in the URL, which is the first line on stdout. Ctrl-C
    stops it. Running processes ('ttmem live') and a followed log are live charts.
    """
    try:
        import uvicorn

        from ttmem.commands.page_server.app import create_application
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("starlette", "uvicorn", "anyio", "h11")):
            raise
        raise MissingPartError("serve needs starlette and uvicorn", hint=install_command("serve")) from error
    from ttmem.profile import store

    if name is not None and store.find(name) is None:
        known = ", ".join(store.list_names()[:20]) or "none"
        raise BadInputError(f"no stored report '{name}'", hint=f"stored reports: {known}")
    if follow is not None and not follow.is_file():
        raise BadInputError("there is no such file to follow", where=str(follow))
    token = secrets.token_urlsafe(24)
    listening = _open_socket(port)
    chosen = listening.getsockname()[1]
    path = f"report/{quote(name, safe='')}" if name else "follow" if follow else ""
    url = f"http://{_HOST}:{chosen}/{path}?token={token}"
    settings = uvicorn.Config(
        create_application(token, log=follow),
        log_level="critical",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(settings)
    try:
        emit(url, None)
        remote = os.environ.get("SSH_CONNECTION", "").split()
        if remote:
            host = remote[2] if len(remote) > 2 else "HOST"
            note(f"over SSH, on your own machine: ssh -N -L {chosen}:{_HOST}:{chosen} {host}", quiet=quiet)
        note("Ctrl-C ends it", quiet=quiet)
        if wants_open or (wants_open is None and not remote and _has_screen()):
            import webbrowser

            webbrowser.open(url)
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # the ordinary way to end it
    finally:
        listening.close()


def _has_screen() -> bool:
    screens = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.stdout.isatty() and (sys.platform == "darwin" or any(map(os.environ.get, screens)))


def _open_socket(port: int | None) -> socket.socket:
    """Open a socket that listens on this machine alone; a named port is that one or an error."""
    for wanted in (_PORT, 0) if port is None else (port,):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_HOST, wanted))
            listening.listen(128)  # whoever reads the address may connect at once
            return listening
        except OSError as error:
            listening.close()
            reason = error.strerror or str(error)
    raise BadInputError(f"port {port} of {_HOST} cannot be used: {reason}", hint="--port 0 takes a free one")
