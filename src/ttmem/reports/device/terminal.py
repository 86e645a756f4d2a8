# SPDX-License-Identifier: Apache-2.0
"""What can run ttnn here, for a person."""

from ttmem.reports.device.document import DeviceDoctor, DeviceInfo
from ttmem.reports.kit.units import megabytes


def info(found: DeviceInfo) -> str:
    """The interpreter in use is marked."""
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
            f"  cache  {found.cache.folder}, {megabytes(found.cache.cache_bytes, decimals=1)}",
        ]
    )


def doctor(found: DeviceDoctor) -> str:
    """What was tried, and below it what to do."""
    lines = []
    for check in found.checks:
        lines.append(f"{check.state:<8} {check.name}: {check.detail}")
        if check.do:
            lines.append(f"{'':<8} do: {check.do}")
    return "\n".join(lines)
