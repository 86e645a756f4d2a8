# SPDX-License-Identifier: Apache-2.0
"""A ttnn script is not predicted: it runs on the mock, and the answer has the form of a prediction."""

from ttmem.analysis.failure import failure, memory_failure
from ttmem.analysis.peaks import peaks
from ttmem.base.errors import BadInputError
from ttmem.engines.engine import MOCK, TWIN
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.prediction.request import OperationCounts, Prediction, Request

_SAYS = "none: the target is a ttnn script and was run on a mock board"


def ran(request: Request) -> Prediction:
    """The script's own run; its failure is the first one."""
    if request.engine == TWIN:
        raise BadInputError("a script runs on the real library", where=request.target, hint="leave --engine out")
    settings = RunSettings(board=request.board, python=request.python)
    run = run_script(request.target, settings=settings, output=2)
    profile = run.profile
    ended = failure(profile)
    if ended is not None and not any(len(timeline.state_kind) for timeline in profile.timelines):
        shown = f"ttmem run {request.target} shows it; a model of torch is FILE.py::load_model"
        hint = f"it used no device; {run.remedy.replace(' ttmem run ', ' ttmem fit ') or shown}"
        raise BadInputError(f"the script ends for another reason than memory: {ended.message[:200]}",
                            where=request.target, hint=hint)  # fmt: skip
    dram, arguments = peaks(profile).get("DRAM"), [one for one in profile.arguments if one.on_device]
    weights_bytes = sum(one.device_bytes or 0 for one in arguments if one.kind == "parameter")
    cache_bytes = sum(one.device_bytes or 0 for one in arguments if one.kv_cache)
    most = dram.peak_bytes_per_bank * dram.banks if dram else 0
    return Prediction(
        request=request,
        profile=profile,
        fits=memory_failure(profile) is None,
        engine=MOCK,
        chips=int(profile.facts.get("chips") or 1),
        weights_bytes=weights_bytes,
        kv_cache_bytes=cache_bytes,
        activations_peak_bytes=max(most - weights_bytes - cache_bytes, 0),
        operations=OperationCounts(exact=sum(map(len, profile.timelines))),
        assumed=(_SAYS,),
        error_bound_percent=0.0,
    )
