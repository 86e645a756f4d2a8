# SPDX-License-Identifier: Apache-2.0
"""The app that pages hold is the one that ``web/`` has the source of; npm is needed to rebuild it, not to tell."""

from __future__ import annotations

import hashlib
import json

from support.command_line import ROOT

WEB, BUILT = ROOT / "web", ROOT / "src" / "ttmem" / "reports" / "templates"


def test_the_built_app_is_current() -> None:
    settings = ("package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")
    sources = [*settings, *(path.relative_to(WEB).as_posix() for path in (WEB / "src").rglob("*") if path.is_file())]
    whole = hashlib.sha256()
    for name in sorted(sources):
        whole.update(f"{name}\n{hashlib.sha256((WEB / name).read_bytes()).hexdigest()}\n".encode())
    record = json.loads((BUILT / "app.json").read_text())
    assert record["sources"] == whole.hexdigest(), "run 'make web': web/src was changed since the app was built"
    for name in ("app.js", "app.css"):
        assert record[name] == hashlib.sha256((BUILT / name).read_bytes()).hexdigest(), f"{name} was edited by hand"


def test_the_source_names_no_host_and_writes_no_markup() -> None:
    for path in [*(WEB / "src").rglob("*.ts"), WEB / "package-lock.json"]:
        text = path.read_text("utf-8")
        assert "innerHTML" not in text, path
        assert "registry." not in text, path
