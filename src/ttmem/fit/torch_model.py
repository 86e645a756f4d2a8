# SPDX-License-Identifier: Apache-2.0
"""A PyTorch model, traced without weights, as a stream."""

from pathlib import Path

from ttmem.fit.lowering import Lowering
from ttmem.fit.request import EAGER, Request
from ttmem.fit.stream import Stream
from ttmem.operators.graphs import Graph, trace_graph
from ttmem.operators.tracer.job import TraceJob

_SEQUENCE = 128


def stream_of(request: Request) -> Stream:
    """What its forward pass does to one chip."""
    job = TraceJob(
        request.target,
        request.inputs,
        request.size,
        dict(request.settings),
        request.batch,
        request.sequence or _SEQUENCE,
        eager_attention=request.attention == EAGER,
    )
    return Lowering(_graph(job, request.torch_python), request).stream()


def _graph(job: TraceJob, python: str | None) -> Graph:
    """The last one is kept: searches and advice ask for the same model in other types and on other boards."""
    files = [target.partition("::")[0] for target in (job.target, job.inputs) if "::" in target]
    key = repr((job, python, [Path(file).stat().st_mtime_ns for file in files if Path(file).exists()]))
    if key not in _traced:
        graph = trace_graph(job, python=python)
        _traced.clear()
        _traced[key] = graph
    return _traced[key]


_traced: dict[str, Graph] = {}
