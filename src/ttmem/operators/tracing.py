# SPDX-License-Identifier: Apache-2.0
"""Traces models in processes of their own, with any interpreter that has torch; a crash costs one model."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ttmem.base.child_process import foreign_environment, probe_command
from ttmem.base.errors import BadInputError, MissingPartError
from ttmem.base.extras import install_command
from ttmem.base.file_sandbox import refuse_outside
from ttmem.base.home import home_folder
from ttmem.base.text_safety import escape_half_pairs_in_json
from ttmem.operators.case import Case, ModelUse, case_from_json
from ttmem.operators.tracer.job import BAD_TARGET, MISSING_PACKAGE, REFUSED, TraceJob

START = Path(__file__).parent / "tracer" / "start.py"
VARIABLE = "TTMEM_TORCH_PYTHON"
_TORCH_VARIABLES = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
"""Some machines announce AMX and end by SIGILL who uses it; a trace computes nothing that AMX would speed up."""
_AFTER_DEATH = {
    "SIGILL": "the processor announces instructions that it may not use: set ONEDNN_MAX_CPU_ISA=AVX2",
    "SIGKILL": "the host's memory is the usual reason: trace fewer models at once (-j 1), or at a smaller size",
}


@dataclass(frozen=True, slots=True)
class SourceResult:
    """Result of a target at one size."""

    target: str
    model: str
    cases: tuple[Case, ...] = ()
    calls: int = 0
    parameters: int | None = None
    size: str = ""
    seconds: float = 0.0
    refusal: str = ""
    """Why the model cannot be run at this size; empty when it can. A result, not an error."""
    remarks: tuple[str, ...] = ()
    kind: str = "model"
    """``model``, or the format of a list."""

    @property
    def status(self) -> str:
        return "refused" if self.refusal else "ok"

    @property
    def operators(self) -> int:
        return len({case.op for case in self.cases})


def find_torch_python(python: str | None = None) -> str:
    """The interpreter to trace with: the one named, ``TTMEM_TORCH_PYTHON``, this one, the managed one."""
    if named := python or os.environ.get(VARIABLE):
        if _has_torch(named):
            return named
        raise MissingPartError("has no torch, or does not run", where=named, hint=install_command("torch", named))
    for candidate in (sys.executable, str(home_folder() / "torch" / "bin" / "python")):
        if Path(candidate).exists() and _has_torch(candidate):
            return candidate
    raise MissingPartError("models are traced with torch, which is not installed", hint=install_command("torch"))


def _has_torch(python: str) -> bool:
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        command, environment = probe_command(python, probe), foreign_environment()
        return subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False).returncode == 0
    return False


def trace_all(
    jobs: Sequence[TraceJob], *, python: str | None = None, workers: int = 1
) -> Iterator[tuple[int, SourceResult]]:
    """The number of a job and its trace, as they are done. A bad target ends the whole: nothing else can come of it."""
    for job in jobs:
        _check(job)
    interpreter = find_torch_python(python)
    free: SimpleQueue[_Tracer] = SimpleQueue()
    runs_user_code = any(not job.target.startswith("hf:") for job in jobs)
    tracers = [_Tracer(interpreter, runs_user_code) for _ in range(max(1, min(workers, len(jobs))))]
    for tracer in tracers:
        free.put(tracer)

    def work(job: TraceJob) -> SourceResult:
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


def describe_config(target: str, settings: dict[str, Any], *, python: str | None = None) -> dict[str, Any]:
    """The configuration that ``hf:Config`` and settings come to, as transformers writes it; no model is built."""
    answer = ask_once(TraceJob(target, settings=settings, describes=True), python=python)
    if "config" not in answer:
        raise BadInputError(answer["problem"], where=target)
    described: dict[str, Any] = answer["config"]
    return described


def ask_once(job: TraceJob, *, python: str | None = None) -> dict[str, Any]:
    """Run a job in a process of its own; a target that cannot be traced is bad input."""
    _check(job)
    with keep_tracer() as tracers:
        key = find_torch_python(python), not job.target.startswith("hf:")
        tracer = tracers.setdefault(key, _Tracer(*key))
        answer = tracer.ask(job)
    _raise_if_bad(job, answer)
    return answer


Tracers = dict[tuple[str, bool], "_Tracer"]
"""Processes that trace, by interpreter and whether they run the user's code. Of one thread at a time: a process answers
what it is asked in order."""
_own = threading.local()


@contextlib.contextmanager
def keep_tracer(tracers: Tracers | None = None) -> Iterator[Tracers]:
    """Inside, one process answers all that this thread asks once: importing torch takes seconds. (It does not notice
    that a file with a model has changed.) Those of ``tracers`` are used, and stay until ``close_tracers``."""
    outer: Tracers | None = getattr(_own, "tracers", None)
    if tracers is None and outer is not None:
        yield outer
        return
    _own.tracers = used = {} if tracers is None else tracers
    try:
        yield used
    finally:
        _own.tracers = outer
        if tracers is None:
            close_tracers(used)


def close_tracers(tracers: Tracers) -> None:
    """End the processes."""
    while tracers:
        tracers.popitem()[1].close()


def _check(job: TraceJob) -> None:
    """Check what needs no torch."""
    for target in filter(None, (job.target, job.inputs)):
        if target.startswith("hf:"):
            continue
        place, _, function = target.partition("::")
        if not function:
            raise BadInputError("names no function", where=target, hint=f"write {place}::load_model")
        if not Path(place).is_file():
            raise BadInputError("no such file", where=place)
        refuse_outside(place)
    for text in _texts(job.settings):  # the tracer has no fence, and may read a path that a setting names
        if os.path.lexists(text):
            refuse_outside(text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


class _Tracer:
    """A tracing process, started on first use and again when it died."""

    def __init__(self, python: str, runs_user_code: bool) -> None:
        self._python = python
        self._environment = None if runs_user_code else foreign_environment()
        self._child: subprocess.Popen[str] | None = None

    def trace(self, job: TraceJob) -> SourceResult:
        return _result(job, self.ask(job))

    def ask(self, job: TraceJob) -> dict[str, Any]:
        """Its answer; the death of the process is one too."""
        child = self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        line = ""
        with contextlib.suppress(OSError):
            child.stdin.write(json.dumps(asdict(job)) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        if not line:
            return {"problem": _death(child.wait()), "kind": REFUSED, "seconds": 0.0}
        answer: dict[str, Any] = json.loads(escape_half_pairs_in_json(line))
        return answer

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(OSError), child:
                child.kill()

    def _start(self) -> subprocess.Popen[str]:
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._child = subprocess.Popen(
                [self._python, str(START), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env={**_TORCH_VARIABLES, **(os.environ if self._environment is None else self._environment)},
                start_new_session=True,  # a Ctrl-C is ours to handle
            )
        return self._child


def _result(job: TraceJob, answer: dict[str, Any]) -> SourceResult:
    _raise_if_bad(job, answer)
    if problem := answer.get("problem", ""):
        return _explain_refusal(job, problem, answer["seconds"])
    cases = []
    for raw in answer["cases"]:
        use = ModelUse(job.model, raw["count"], answer["size"], tuple(raw.pop("modules")))
        cases.append(replace(case_from_json(raw), uses=(use,)))
    figures = {name: answer[name] for name in ("calls", "parameters", "size", "seconds")}
    return SourceResult(job.target, job.model, tuple(cases), **figures, remarks=tuple(answer["remarks"]))


def _raise_if_bad(job: TraceJob, answer: dict[str, Any]) -> None:
    """A target that nothing can come of; a model that refuses is a result."""
    problem, kind = answer.get("problem", ""), answer.get("kind", "")
    if kind == BAD_TARGET:
        raise BadInputError(problem, where=job.target)
    if kind == MISSING_PACKAGE:
        raise MissingPartError(problem, where=job.target, hint="install it next to torch")


def _death(status: int) -> str:
    """Explain the end of a tracing process, with a remedy."""
    if status >= 0:
        return f"the tracing process ended with status {status}"
    known = -status in set(signal.Signals)
    name = signal.Signals(-status).name if known else f"signal {-status}"
    remedy = _AFTER_DEATH.get(name, "run the model by itself with python -X faulthandler to see where")
    return f"the tracing process was ended by {name}; {remedy}"


def _explain_refusal(job: TraceJob, why: str, seconds: float = 0.0) -> SourceResult:
    return SourceResult(job.target, job.model, size=job.size_text, seconds=seconds, refusal=why)
