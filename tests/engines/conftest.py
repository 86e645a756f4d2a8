# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ttmem.engines.interpreters import Interpreter
from ttmem.engines.ttnn import EngineSettings, TtnnEngine


@pytest.fixture(scope="module")
def engine(ttnn_interpreter: Interpreter, engines_home: Path) -> Iterator[Callable[..., TtnnEngine]]:
    """Engines by their settings, kept for the tests of a module."""
    started: dict[EngineSettings, TtnnEngine] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTMEM_HOME", str(engines_home))

        def get(**changes: Any) -> TtnnEngine:
            settings = EngineSettings(python=ttnn_interpreter.path, **changes)
            if settings not in started:
                started[settings] = TtnnEngine(settings)
                started[settings].start()
            return started[settings]

        yield get
        for one in started.values():
            one.close()
