# SPDX-License-Identifier: Apache-2.0
"""Answers jobs, one JSON line each, until its input ends; importing torch takes seconds, so one process does many."""

import json
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

_HERE = str(Path(__file__).resolve().parent)


def main() -> int:
    """Jobs on stdin, answers on what was stdout; whatever models print goes nowhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no weights are wanted, so nothing may be fetched
    for line in sys.stdin:
        answer = answer_of(json.loads(line))
        answers.write(json.dumps(answer, separators=(",", ":")) + "\n")
        answers.flush()
    return 0


def answer_of(job_json: dict[str, Any]) -> dict[str, Any]:
    """``{"cases": ...}`` or ``{"problem": text, "kind": ...}``."""
    from .job import MISSING_PACKAGE, REFUSED, TracerError, sentence

    started = time.perf_counter()
    try:
        answer = _trace(job_json)
    except TracerError as error:
        answer = {"problem": str(error), "kind": error.kind}
    except ImportError as error:
        answer = {"problem": sentence(error), "kind": MISSING_PACKAGE}
    except (Exception, SystemExit) as error:
        answer = {"problem": sentence(error) + _place(error), "kind": REFUSED}
    return {**answer, "seconds": time.perf_counter() - started}


def _place(error: BaseException) -> str:
    """The line of the user's own file that it came from, if any."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if os.sep + "site-packages" + os.sep not in frame.filename]
    own = [frame for frame in own if not frame.filename.startswith((_HERE, sys.base_prefix, "<"))]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def _trace(job_json: dict[str, Any]) -> dict[str, Any]:
    from . import fake_model, targets
    from .job import TraceJob

    fake_model.make_torchvision_importable()
    size = job_json["size"]
    job = TraceJob(**{**job_json, "size": tuple(size) if size else None})
    if job.describes:
        return {"config": targets.describe(job)}
    model = targets.find(job)

    def run(*, on_meta: bool) -> dict[str, Any]:
        built = fake_model.build(model.load, on_meta=on_meta)
        targets.check_built(built, job)
        fake_model.check_traceable(built)
        parameters = sum(parameter.numel() for parameter in built.parameters())
        return {**fake_model.run(built, model.inputs(built), job), "parameters": parameters}

    try:
        done = run(on_meta=True)
    except RuntimeError as error:
        # Tensors that a model keeps outside of its tables stay where it was built; then it is built with data.
        if "meta" not in str(error):
            raise
        done = run(on_meta=False)
    return {**done, "size": model.size, "remarks": [*model.remarks, *done.pop("told")]}
