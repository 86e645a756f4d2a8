# SPDX-License-Identifier: Apache-2.0
"""Traces models in processes of their own, with any interpreter that has torch; a crash costs one model."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ttmem._errors import BadInputError, MissingPartError
from ttmem._home import home_folder
from ttmem.operators.case import Case, ModelUse, case_from_json

START = Path(__file__).parent / "tracer" / "start.py"
VARIABLE = "TTMEM_TORCH_PYTHON"
INSTALL = "pip install 'ttmem[torch]'"


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One model at one size."""

    target: str
    """``file.py::load_model`` or ``hf:ViTConfig``."""
    inputs: str = ""
    size: tuple[int, int] | None = None
    """Height and width; None: the model's own."""
    settings: dict[str, Any] = field(default_factory=dict)
    batch: int = 1
    sequence: int = 128
    eager_attention: bool = False

    @property
    def model(self) -> str:
        """A name for people: the configuration, or the file and its function where that says more."""
        if self.target.startswith("hf:"):
            return self.target.removeprefix("hf:")
        place, _, function = self.target.partition("::")
        stem = Path(place).stem
        return stem if function == "load_model" else f"{stem}.{function}"

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "inputs": self.inputs,
            "size": list(self.size) if self.size else None,
            "settings": self.settings,
            "batch": self.batch,
            "sequence": self.sequence,
            "eager_attention": self.eager_attention,
        }


@dataclass(frozen=True, slots=True)
class Trace:
    """What came of a job."""

    job: TraceJob
    cases: tuple[Case, ...] = ()
    calls: int = 0
    parameters: int = 0
    size: str = ""
    seconds: float = 0.0
    refusal: str = ""
    """Why the model cannot be run at this size; empty when it can. A result, not an error."""
    remarks: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.refusal


def managed_python() -> Path:
    """The interpreter of ttmem's own environment for torch; it may not exist."""
    return home_folder() / "torch" / "bin" / "python"


def find_torch_python(python: str | None = None) -> str:
    """The interpreter to trace with: the one named, ``TTMEM_TORCH_PYTHON``, this one, the managed one."""
    if named := python or os.environ.get(VARIABLE):
        if _has_torch(named):
            return named
        raise MissingPartError("has no torch, or does not run", where=named, hint=f"{named} -m {INSTALL}")
    for candidate in (sys.executable, str(managed_python())):
        if Path(candidate).exists() and _has_torch(candidate):
            return candidate
    raise MissingPartError("models are traced with torch, which is not installed", hint=INSTALL)


def _has_torch(python: str) -> bool:
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run([python, "-c", probe], capture_output=True, timeout=60, check=False).returncode == 0
    return False


def trace_all(jobs: Sequence[TraceJob], *, python: str | None = None, workers: int = 1) -> Iterator[tuple[int, Trace]]:
    """The number of a job and its trace, as they are done. A bad target ends the whole: nothing else can come of it."""
    for job in jobs:
        _check(job)
    interpreter = find_torch_python(python)
    free: SimpleQueue[_Tracer] = SimpleQueue()
    tracers = [_Tracer(interpreter) for _ in range(max(1, min(workers, len(jobs))))]
    for tracer in tracers:
        free.put(tracer)

    def work(job: TraceJob) -> Trace:
        tracer = free.get()
        try:
            return tracer.trace(job)
        finally:
            free.put(tracer)

    with ThreadPoolExecutor(len(tracers)) as pool:
        try:
            futures = {pool.submit(work, job): number for number, job in enumerate(jobs)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for tracer in tracers:
                tracer.close()


def _check(job: TraceJob) -> None:
    """What needs no torch to be seen."""
    for target in filter(None, (job.target, job.inputs)):
        if target.startswith("hf:"):
            continue
        place, _, function = target.partition("::")
        if not function:
            raise BadInputError("names no function", where=target, hint=f"write {place}::load_model")
        if not Path(place).is_file():
            raise BadInputError("no such file", where=place)


class _Tracer:
    """One process, started when first needed and again when it died."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._child: subprocess.Popen[str] | None = None

    def trace(self, job: TraceJob) -> Trace:
        child = self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        line = ""
        with contextlib.suppress(OSError):
            child.stdin.write(json.dumps(job.to_json()) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        if not line:
            status = child.wait()
            how = f"signal {-status}" if status < 0 else f"status {status}"
            return Trace(job, refusal=f"the tracing process ended with {how}", size=_size_text(job))
        return _trace_of(job, json.loads(line))

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def _start(self) -> subprocess.Popen[str]:
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._child = subprocess.Popen(
                [self._python, str(START)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # a Ctrl-C is ours to handle
            )
        return self._child


def _size_text(job: TraceJob) -> str:
    return "x".join(map(str, job.size)) if job.size else ""


def _trace_of(job: TraceJob, answer: dict[str, Any]) -> Trace:
    if "problem" in answer:
        return _without_cases(job, answer)
    size = answer["size"]
    cases = []
    for raw in answer["cases"]:
        use = ModelUse(job.model, raw["count"], size, tuple(raw["modules"]))
        cases.append(replace(case_from_json(raw), uses=(use,)))
    return Trace(
        job,
        tuple(cases),
        answer["calls"],
        answer["parameters"],
        size,
        answer["seconds"],
        remarks=tuple(answer["remarks"]),
    )


def _without_cases(job: TraceJob, answer: dict[str, Any]) -> Trace:
    problem, kind = answer["problem"], answer["kind"]
    if kind == "bad_target":
        raise BadInputError(problem, where=job.target)
    if kind == "missing_package":
        raise MissingPartError(problem, where=job.target, hint="install it beside torch")
    return Trace(job, refusal=problem, size=_size_text(job), seconds=answer["seconds"])
