# SPDX-License-Identifier: Apache-2.0
"""A PyTorch model, traced without weights, as a stream."""

from ttmem.fit.lowering import Lowering
from ttmem.fit.request import EAGER, Request
from ttmem.fit.stream import Stream
from ttmem.operators.graphs import trace_graph
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
    return Lowering(trace_graph(job, python=request.torch_python), request).stream()
