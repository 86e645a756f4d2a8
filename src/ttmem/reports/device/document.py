# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem device info``, ``install`` and ``doctor`` say with ``--json``."""

import msgspec

from ttmem.reports.kit.documents import Document


class Interpreter(Document, frozen=True):
    """A Python that has ttnn; what it does not have is null."""

    path: str
    found_by: str
    python_version: str = msgspec.field(name="python")
    ttnn_version: str | None = msgspec.field(name="ttnn")
    torch_version: str | None = msgspec.field(name="torch")
    pytest_version: str | None = msgspec.field(name="pytest")


class Releases(Document, frozen=True):
    """Which ttnn releases ttmem knows."""

    tested: str
    oldest: str


class Cache(Document, frozen=True):
    """What the workers keep between runs."""

    folder: str
    cache_bytes: int = msgspec.field(name="bytes")


class DeviceInfo(Document, frozen=True, tag_field="schema", tag="ttmem.device-info/1"):
    """What this machine has for running ttnn, without trying it."""

    interpreter: Interpreter | None
    """The one that is used."""
    interpreters: tuple[Interpreter, ...]
    """Those with ttnn, in the order in which they are tried."""
    ttnn: Releases
    cards: tuple[str, ...]
    driver: str | None
    boards: tuple[str, ...]
    """Boards that have a mock."""
    cache: Cache


class DeviceInstall(Document, frozen=True, tag_field="schema", tag="ttmem.device-install/1"):
    """The managed environment."""

    made_now: bool
    interpreter: Interpreter


class Check(Document, frozen=True):
    """One thing that was tried."""

    name: str
    state: str
    """``ok``, ``warning`` or ``problem``."""
    detail: str
    do: str
    """What to do about it, empty when nothing need be done."""


class DeviceDoctor(Document, frozen=True, tag_field="schema", tag="ttmem.device-doctor/1"):
    """Everything that a mock board needs, tried."""

    works: bool
    checks: tuple[Check, ...]
