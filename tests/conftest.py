# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: property tests try the same examples each time, so that a red run can be repeated.

`TTMEM_HYPOTHESIS=explore pytest ...` tries new ones, `quick` (as in `make check`) few. No example has a deadline: a
busy machine is no fault of ours.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from ttmem import TtmemError
from ttmem.engines.interpreters import Interpreter, find_interpreter
from ttmem.operators.tracing import find_torch_python

_PATIENT = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile("repeat", deadline=None, derandomize=True, database=None, suppress_health_check=_PATIENT)
settings.register_profile("quick", settings.get_profile("repeat"), max_examples=10)
settings.register_profile("explore", deadline=None, suppress_health_check=_PATIENT)
_PROFILE = os.environ.get("TTMEM_HYPOTHESIS", "repeat")
settings.load_profile(_PROFILE)
if _PROFILE != "explore":
    # Hypothesis also draws constants of the project's modules that are loaded so far. Which these are depends on how
    # tests are dealt out to processes, so without this the same examples are not tried each time.
    providers.is_local_module_file = lambda path: False


# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every command that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_OTHER_PROGRAMS = {"ttnn_interpreter", "torch_python", "visualizer_python"}
"""Fixtures behind which a real ttnn, torch or another tool runs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks other programs is left out of the fast half (``make check``)."""
    for item in items:
        if not _OTHER_PROGRAMS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.oracle)


@pytest.fixture(scope="session")
def ttnn_interpreter() -> Interpreter:
    """An interpreter that has ttnn, looked for before any test moves TTMEM_HOME."""
    try:
        return find_interpreter()
    except TtmemError as error:
        pytest.skip(f"THE REAL TTNN WAS NOT ASKED: {error}; run 'ttmem device install', or set TTMEM_TTNN_PYTHON")


@pytest.fixture(scope="session")
def torch_python() -> str:
    """An interpreter that has torch."""
    try:
        return find_torch_python()
    except TtmemError as error:
        pytest.skip(f"NO MODEL WAS TRACED: {error}; run 'python tools/torch_env.py', or set TTMEM_TORCH_PYTHON")


@pytest.fixture(scope="session")
def engines_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all tests of a run, so that they share a kernel cache and leave the user's alone."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "engines-home"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def with_ttnn(ttnn_interpreter: Interpreter, engines_home: Path, monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """The surroundings of a test that starts workers."""
    monkeypatch.setenv("TTMEM_HOME", str(engines_home))
    monkeypatch.setenv("TTMEM_TTNN_PYTHON", ttnn_interpreter.path)
    return ttnn_interpreter
