# SPDX-License-Identifier: Apache-2.0
"""A PyTorch model, traced without weights, as a stream."""

import threading
from pathlib import Path

from ttmem.base.errors import BadInputError
from ttmem.operators.graphs import Graph, trace_graph
from ttmem.operators.tracer.job import TraceJob
from ttmem.prediction.lowering import Lowering
from ttmem.prediction.request import EAGER, Request
from ttmem.prediction.stream import Stream

_SEQUENCE = 128


_OF_RECIPES = ("chips", "phase", "users", "context", "kv_cache", "prefill_chunk")


def stream_of(request: Request) -> Stream:
    """What its forward pass does to one chip."""
    if asked := [name for name in _OF_RECIPES if getattr(request, name)]:
        option = asked[0].replace("_", "-")
        raise BadInputError(
            f"--{option} is for language models that a recipe lays out, not for a traced one",
            where=request.target,
            hint="the config.json of a language model, or hf: and its configuration; else --batch, --size, --seq",
        )
    job = TraceJob(
        request.target,
        request.inputs,
        request.size,
        dict(request.settings),
        request.batch,
        request.sequence or _SEQUENCE,
        eager_attention=request.attention == EAGER,
    )
    graph = _graph(job, request.torch_python)
    weights = [value.name for value in graph.values if value.role == "parameter"]
    for kind in filter(None, request.weights):
        if not any(kind in name for name in weights):
            known = sorted({name.split(".")[-2] for name in weights if "." in name})
            raise BadInputError(f"no weight's name holds '{kind}' (--weights)", hint=f"known: {', '.join(known[:20])}")
    return Lowering(graph, request).stream()


def _graph(job: TraceJob, python: str | None) -> Graph:
    """The last one is kept: searches and advice ask for the same model in other types and on other boards."""
    files = [target.partition("::")[0] for target in (job.target, job.inputs) if "::" in target]
    key = repr((job, python, [Path(file).stat().st_mtime_ns for file in files if Path(file).exists()]))
    traced: dict[str, Graph] = _own.__dict__.setdefault("traced", {})
    if key not in traced:
        graph = trace_graph(job, python=python)
        traced.clear()
        traced[key] = graph
    return traced[key]


def forget_graph() -> None:
    """Trace the next model anew: a file that it imports may have changed."""
    _own.__dict__.pop("traced", None)


_own = threading.local()
"""Several models are traced at the same time, each by a thread of its own."""
