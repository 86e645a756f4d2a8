# SPDX-License-Identifier: Apache-2.0
"""The answers of ``ttmem device info``, ``install`` and ``doctor``."""

from collections.abc import Sequence

import msgspec

from ttmem.base.formatting import format_mib
from ttmem.reports.kit.documents import Document


class InterpreterRow(Document, frozen=True):
    """A Python interpreter with ttnn; a missing package is null."""

    path: str
    found_by: str
    python_version: str = msgspec.field(name="python")
    ttnn_version: str | None = msgspec.field(name="ttnn")
    torch_version: str | None = msgspec.field(name="torch")
    pytest_version: str | None = msgspec.field(name="pytest")


class Releases(Document, frozen=True):
    """The ttnn releases that ttmem supports."""

    tested: str
    oldest: str


class Cache(Document, frozen=True):
    """The cache that workers keep between runs."""

    folder: str
    cache_bytes: int = msgspec.field(name="bytes")


class DeviceInfo(Document, frozen=True, tag_field="schema", tag="ttmem.device-info/1"):
    """The interpreters, cards and mocks of this machine, without trying them."""

    interpreter: InterpreterRow | None
    """The one that is used."""
    interpreters: Sequence[InterpreterRow]
    """All interpreters with ttnn, in the order in which they are tried."""
    ttnn: Releases
    cards: Sequence[str]
    driver: str | None
    boards: Sequence[str]
    """Boards that have a mock."""
    cache: Cache


class DeviceInstall(Document, frozen=True, tag_field="schema", tag="ttmem.device-install/1"):
    """The managed environment."""

    made_now: bool
    interpreter: InterpreterRow


class DoctorCheckRow(Document, frozen=True):
    """The result of one check."""

    name: str
    state: str
    """``ok``, ``warning`` or ``problem``."""
    detail: str
    do: str
    """What to do about it, empty when nothing need be done."""


class DeviceDoctor(Document, frozen=True, tag_field="schema", tag="ttmem.device-doctor/1"):
    """The checks of everything that a mock board needs."""

    works: bool
    checks: Sequence[DoctorCheckRow]


def render_info(found: DeviceInfo) -> str:
    """Render the interpreters; the one in use is marked."""
    lines = []
    for one in found.interpreters:
        mark = "*" if found.interpreter and one.path == found.interpreter.path else " "
        torch = f", torch {one.torch_version}" if one.torch_version else ""
        lines.append(
            f"{mark} ttnn {one.ttnn_version or '?'}  {one.path}  (Python {one.python_version}{torch}; {one.found_by})"
        )
    if not lines:
        lines.append("  no interpreter with ttnn; make one with 'ttmem device install'")
    cards = f"{len(found.cards)} ({', '.join(found.cards)})" if found.cards else "none (mock boards need none)"
    return "\n".join(
        [
            *lines,
            f"  cards  {cards}" + (f", driver {found.driver}" if found.driver else ""),
            f"  mocks  {', '.join(found.boards)}",
            f"  cache  {found.cache.folder}, {format_mib(found.cache.cache_bytes, decimals=1)}",
        ]
    )


def render_doctor(found: DeviceDoctor) -> str:
    """Render each check, and below it what to do."""
    lines = []
    for check in found.checks:
        lines.append(f"{check.state:<8} {check.name}: {check.detail}")
        if check.do:
            lines.append(f"{'':<8} do: {check.do}")
    return "\n".join(lines)
