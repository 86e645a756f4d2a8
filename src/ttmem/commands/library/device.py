# SPDX-License-Identifier: Apache-2.0
"""The answers of ``ttmem device``: interpreters with ttnn, the managed environment, what does not work."""

from collections.abc import Callable, Sequence

from ttmem.engines import doctor, interpreters
from ttmem.engines import install as installing
from ttmem.hardware import BOARDS
from ttmem.reports.device.document import Cache, DeviceDoctor, DeviceInfo, DeviceInstall, Interpreter, Releases


def info(python: str | None = None) -> DeviceInfo:
    """Interpreters with ttnn, cards, boards that can be mocked; nothing is started but interpreters."""
    found = doctor.equipment(python)
    return DeviceInfo.of(
        found,
        interpreter=_interpreter(found.chosen) if found.chosen else None,
        interpreters=[_interpreter(one) for one in found.interpreters],
        ttnn=Releases(interpreters.PINNED_TTNN, ".".join(map(str, interpreters.OLDEST_TTNN))),
        driver=found.driver_version or None,
        cache=Cache(found.cache, found.cache_bytes),
    )


def install(
    python: str | None = None,
    *,
    release: str | None = None,
    packages: Sequence[str] = (),
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> DeviceInstall:
    """Make the managed environment with the ttnn release that ttmem was tested with, or with another one beside it;
    ``packages`` are added without changing what ttnn needs. ``say`` is called with each step."""
    release = release or interpreters.PINNED_TTNN
    done = installing.install(python, release=release, packages=packages, force=force, say=say)
    return DeviceInstall(done.made_now, _interpreter(done.interpreter))


def examine(python: str | None = None, *, board: str = "n150") -> DeviceDoctor:
    """Try everything that a mock board needs, in that order, with a remedy for what fails."""
    checks = doctor.examine(python, board=BOARDS.find(board).name)
    return DeviceDoctor.of(works=all(check.state != doctor.PROBLEM for check in checks), checks=checks)


def _interpreter(found: interpreters.Interpreter) -> Interpreter:
    versions = {name: getattr(found, name) or None for name in ("ttnn_version", "torch_version", "pytest_version")}
    return Interpreter.of(found, **versions)
