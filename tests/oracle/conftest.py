# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from oracle.real import RealDevice, find_python


def cases(share: float, per_example: float) -> int:
    """How many hypothesis examples a test may use.

    `TTMEM_ORACLE_CASES` is the number of cases of the whole oracle run; a test takes its share, and one example of it
    holds about `per_example` cases.
    """
    return max(int(int(os.environ.get("TTMEM_ORACLE_CASES", "10000")) * share / per_example), 1)


def is_long_run() -> bool:
    return "TTMEM_ORACLE_CASES" in os.environ


@pytest.fixture(scope="session")
def real_device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], RealDevice]]:
    """Real devices by board, one process each, kept for the whole run."""
    python, reason = find_python()
    if python is None:
        pytest.skip(
            f"THE TWIN WAS NOT COMPARED WITH THE REAL TTNN: {reason}; "
            "run `python tools/ttnn_env.py`, or set TTMEM_TTNN_PYTHON"
        )
    folder = tmp_path_factory.mktemp("mock")
    devices: dict[str, RealDevice] = {}

    def open_real(board: str) -> RealDevice:
        if board not in devices or not devices[board].is_alive:
            devices[board] = RealDevice(board, folder, python)
        return devices[board]

    yield open_real
    for device in devices.values():
        device.close()
