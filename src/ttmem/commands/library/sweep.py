# SPDX-License-Identifier: Apache-2.0
"""``ttmem.sweep``: cases x boards x memories x layouts on an engine, into a folder with a journal."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttmem.engines.interpreters import chosen_python
from ttmem.operators.case import Case
from ttmem.operators.case_files import read_cases
from ttmem.operators.sweeps import expectations
from ttmem.operators.sweeps.distribute import Remark
from ttmem.operators.sweeps.expectations import Deviation
from ttmem.operators.sweeps.journal import read_results
from ttmem.operators.sweeps.plan import SWEPT_MEMORIES, Settings, make_plan
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.run import Finished, Watch, run_sweep
from ttmem.reports.sweep import document as reports


@dataclass(frozen=True, slots=True)
class SweepRun:
    """The results of the cases that were asked for, whether this call asked them or an earlier one."""

    finished: Finished
    results: tuple[Result, ...]
    unexpected: tuple[Deviation, ...]
    """What differs from the expectations, or did not pass when the call was strict."""

    @property
    def document(self) -> reports.SweepRun:
        """What ``ttmem sweep run --json`` says."""
        return reports.run_document(self.finished, self.results, self.unexpected)

    @property
    def statuses(self) -> dict[str, dict[str, dict[str, int]]]:
        """Board -> memory -> status -> how many."""
        return self.document.statuses

    def to_json(self) -> dict[str, Any]:
        """The document of ``ttmem sweep run --json``."""
        return self.document.to_json()


def sweep(
    cases: str | Path | Sequence[Case],
    out: str | Path,
    *,
    engine: str = "twin",
    boards: Sequence[str] = (),
    memories: Sequence[str] = (),
    layouts: Sequence[str] = (),
    dtype: str = "bfloat16",
    l1_small: int = 32768,
    trace_region: int = 0,
    timeout: float = 60.0,
    python: str | None = None,
    ttnn: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    expect: str | Path | None = None,
    strict: bool = False,
    watch: Watch | None = None,
    remark: Remark | None = None,
) -> SweepRun:
    """Ask an engine (``twin``, ``mock``, ``card``) about every case, each alone on an empty device.

    ``cases`` is a file of ``ttmem ops extract`` or the cases themselves. ``out`` is a folder: its journal is the truth,
    so a second call resumes. Unless others are named, the board is n150, the memories are DRAM and L1, the layout is
    tile. ``dtype`` is what the models' floats are on the device (``"model"``: as recorded),
    ``timeout`` seconds per call, ``ttnn`` a release that ``ttmem device install`` made, ``scheduler`` a Dask cluster
    (``tcp://host:port``). ``expect`` is a file of known failures; ``strict`` finds every other case that does not pass.
    ``watch`` is called with the progress, ``remark`` with a text when a worker of the cluster was lost.
    """
    python = chosen_python(python, ttnn)
    settings = Settings(engine, l1_small, trace_region, None if dtype == "model" else dtype, timeout, python)
    expected = expectations.read(Path(expect)) if expect is not None else None
    named, known = (Path(cases), read_cases(cases)) if isinstance(cases, (str, Path)) else (None, cases)
    plan = make_plan(
        known,
        settings=settings,
        boards=boards or ("n150",),
        memories=memories or SWEPT_MEMORIES,
        layouts=layouts or ("tile",),
    )
    facts = {"cases_file": named.name} if named is not None else {}
    finished = run_sweep(plan, Path(out), workers=workers, scheduler=scheduler, watch=watch, remark=remark, **facts)
    places = {point.place for point in plan.points}
    results = [result for result in read_results(Path(out))[0] if result.place in places]
    return SweepRun(finished, tuple(results), tuple(expectations.compare(results, expected, strict=strict)))
