# SPDX-License-Identifier: Apache-2.0
"""Lower a PyTorch model, traced without weights, to calls of ttnn: tensors, their forms, and when they are freed.

The catalogue says how one operator is called. Between calls a value keeps the form in which it was created while
the next one accepts it: images with their channels last, rows of several sequences unfolded.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import OpenSettings, open_board
from ttmem.operators.bound_case import CannotRunError
from ttmem.operators.case import CaseTensor
from ttmem.operators.case_program import RESULT, CaseProgram, lower_case
from ttmem.operators.catalogue_entries import DEVICE, FREE, Operator, catalogue
from ttmem.operators.extraction import Graph, GraphCall, trace_graph
from ttmem.operators.tracer.job import TraceJob
from ttmem.prediction import image_lowering, view_lowering
from ttmem.prediction.request import EAGER, PYTHON, Request
from ttmem.prediction.step_writer import DeviceValue, StepWriter
from ttmem.prediction.stream import CONSTANT, ModelCall, Step, Stream

_NEVER = 1 << 60
_ELEMENTWISE = ("unary", "binary")
_ROW_MAJOR_RESULTS = {
    "embedding", "index", "index_select", "argmax", "max_pool2d", "max_pool2d_with_indices", "avg_pool2d",
    "_adaptive_avg_pool2d", "adaptive_max_pool2d", "upsample_nearest2d", "upsample_bilinear2d", "grid_sampler_2d",
}  # fmt: skip
"""Operators with a row-major result."""
_INDEX_DTYPES = {"topk": "uint16", "sort": "uint16", "argmax": "uint32"}
"""Data type of indices in the results of calls; torch uses int64."""
_MOST_UINT16 = 65535
_ASSUMED = {
    "last-use": "tensors are freed after their last use (--liveness python: when Python drops them)",
    "python": "tensors are freed when Python drops them, without any deallocate",
}
_CONSTANTS = "what depends on weights alone is computed once when the model is loaded"
_ALWAYS = (
    "inputs are laid out on the host as the first operation wants them",
    "activations are interleaved in DRAM; ports that keep them in L1 need less DRAM",
)


class GraphLowering:
    """Walks a traced graph once."""

    def __init__(self, graph: Graph, request: Request) -> None:
        self._graph = graph
        self._request = request
        self.writer = StepWriter(graph, request)
        self.memory_map = open_board(request.board, OpenSettings(request.l1_small_bytes, request.trace_region_bytes))
        self._calls: list[ModelCall] = []
        self._assumed = Counter[str]()
        self._is_constant = self._find_constants()
        self._needed = self._find_needed()
        self._last = self._find_last_uses()
        needed = (call for call, wanted in zip(graph.calls, self._needed, strict=True) if wanted)
        self._uses = Counter(value for call in needed for value in call.takes)
        self._producer = {value: call for call in graph.calls for value in call.makes}

    def build_stream(self) -> Stream:
        """Lower the whole graph."""
        for index, call in enumerate(self._graph.calls):
            if self._needed[index]:
                self._lower(index, call)
        asked = self._request
        told = (f"{text} ({count} times)" if count > 1 else text for text, count in self._assumed.items())
        return Stream(
            self._graph.model,
            tuple(self.writer.residents),
            tuple(self._calls),
            assumed=(_ASSUMED[asked.liveness], *self._list_model_assumptions(), *_ALWAYS, *self._graph.remarks, *told),
            is_placed=False,
            as_loaded_bytes=image_lowering.count_as_loaded_bytes(self._graph),
            facts={
                "parameters": self._graph.parameters,
                "batch": asked.batch,
                "size": self._graph.size,
                "dtype": asked.dtype,
            },
        )

    def _list_model_assumptions(self) -> Iterator[str]:
        """Yield assumptions about parts that only some models have."""
        sign = "softmax" if self._request.attention == EAGER else "scaled_dot_product"
        if any(sign in call.case.op for call in self._graph.calls):
            yield f"attention is {self._request.attention} (--attention)"
        if any(self._is_constant):
            yield _CONSTANTS

    # --- what happens when ------------------------------------------------------------------------------------

    def _find_constants(self) -> list[bool]:
        """Find calls that depend on no input: they run once, when the model is loaded."""
        values, changing, constant = self._graph.values, set[int](), []
        changing |= {number for number, value in enumerate(values) if value.role == "input"}
        for call in self._graph.calls:
            is_constant = changing.isdisjoint(call.takes)
            if not is_constant:
                changing.update(call.makes)
            else:
                self.writer.derive_constant(call)
            constant.append(is_constant)
        return constant

    def _find_needed(self) -> list[bool]:
        """Find calls whose results are used; a port leaves out the others."""
        wanted = set(self._graph.results)
        needed = [False] * len(self._graph.calls)
        for index in range(len(needed) - 1, -1, -1):
            call = self._graph.calls[index]
            if not self._is_constant[index] and not wanted.isdisjoint(call.makes):
                needed[index] = True
                wanted.update(call.takes)
        return needed

    def _find_last_uses(self) -> dict[int, int]:
        last: dict[int, int] = {}
        for index, call in enumerate(self._graph.calls):
            if self._needed[index]:
                last.update(dict.fromkeys((*call.makes, *call.takes), index))
        if self._request.liveness == PYTHON:
            for value in last:
                last[value] = max(last[value], self._graph.dropped.get(value, _NEVER) - 1)
        last.update(dict.fromkeys(self._graph.results, _NEVER))
        return last

    def count_uses(self, value: int) -> int:
        return self._uses[value]

    # --- one call -------------------------------------------------------------------------------------------------

    def _lower(self, index: int, call: GraphCall) -> None:
        bench, unsupported = self.writer, ""
        bench.begin(lambda value: self._last.get(value, -1) <= index)
        operator = catalogue().find(call.case.op)
        if operator is None and not call.makes:
            return
        try:
            self._lower_on_device(call, operator)
        except (CannotRunError, LookupError, TypeError, ValueError) as error:
            # Arguments that no rule has met (a model may hold anything) cost their call, not the answer.
            unsupported = str(error) if isinstance(error, CannotRunError) else f"no form here takes it: {error!r}"
            bench.begin(bench.dies)
            for value in call.takes:
                bench.require(value)
            for value in call.makes:
                bench.allocate_result(value)
        made = {value: bench.device_values[value] for value in call.makes if value in bench.device_values}
        steps, frees = bench.end((*call.takes, *call.makes))
        if not steps and not frees:
            return
        called = [step["call"] for step in steps if "call" in step]
        name = called[-1] if called else f"aten.{call.case.op}"
        otherwise = () if unsupported else bench.list_fallback(made.values())
        self._calls.append(
            ModelCall(name, tuple(steps), tuple(frees), call.module, call.case.op, unsupported, otherwise=otherwise)
        )
        if index + 1 < len(self._graph.calls) and self._request.liveness == PYTHON:
            bench.release_dropped(index, self._last, self._calls)

    def _lower_on_device(self, call: GraphCall, operator: Operator | None) -> None:
        if operator is None:
            raise CannotRunError(f"{call.case.op} is not in the catalogue")
        if operator.support == FREE or view_lowering.is_unchanged(self, call):
            self.writer.alias(call.takes[0], call.makes[0])
            return
        if operator.support != DEVICE:
            raise CannotRunError(f"{call.case.op} does not run on the device: {operator.note or operator.lowering}")
        if any(self._graph.values[value].dtype.startswith("complex") for value in (*call.takes, *call.makes)):
            raise CannotRunError(
                "there are no complex tensors on the device; the result is counted as pairs of numbers"
            )
        if view_lowering.lower_view_call(self, call) or image_lowering.lower_image_call(self, call):
            return
        if operator.kind in _ELEMENTWISE and self._lower_elementwise(call):
            return
        self._lower_by_recipe(call, operator)

    def _lower_by_recipe(self, call: GraphCall, operator: Operator) -> None:
        """Lower a call as the catalogue says, with every tensor in the form that it needs."""
        bench = self.writer
        recipe = self.lower_case(call.case.op, [(t, t.shape) for t in call.case.tensors], call)
        if recipe.is_free:
            bench.alias(call.takes[0], call.makes[0])
            return
        names: dict[str, str] = {}
        values = _values_by_name(call, operator)
        for tensor in recipe.inputs:
            if tensor.name not in values:  # a number here, which the call takes as a tensor
                path = f"constant {'x'.join(map(str, tensor.shape))}"
                names[tensor.name] = bench.load(path, CONSTANT, (path,), tensor.shape, tensor.layout, tensor.dtype)
                continue
            value = values[tensor.name]
            weight = image_lowering.prepare_weight(self, call, recipe, tensor) if tensor.on_host else None
            names[tensor.name] = weight or bench.ensure_form(value, tensor.shape, tensor.layout, tensor.dtype)
        shapes = [
            image_lowering.channels_last_shape(operator.result, value) for value in map(self.shape_of, call.makes)
        ]
        if call.case.op == "unbind":  # pieces of length one, which a later call squeezes
            place = call.case.args.get("dim", 0) % (len(shapes[0]) + 1)
            shapes = [(*shape[:place], 1, *shape[place:]) for shape in shapes]
        self.emit(call, recipe, names, shapes, is_last=operator.result.startswith("channels_last"))

    def lower_case(
        self, op: str, tensors: list[tuple[CaseTensor, tuple[int, ...]]], call: GraphCall, **args: Any
    ) -> CaseProgram:
        """Lower an operator with tensors of these shapes as the catalogue says."""
        shaped = tuple(CaseTensor(tuple(shape), tensor.dtype, tensor.name) for tensor, shape in tensors)
        case = replace(call.case, op=op, tensors=shaped, args={**call.case.args, **args}, id="traced")
        return lower_case(case, float_dtype=self._request.dtype)

    def emit(
        self,
        call: GraphCall,
        recipe: CaseProgram,
        names: dict[str, str],
        shapes: list[tuple[int, ...]],
        *,
        is_last: bool = False,
    ) -> None:
        """Write the steps of a case under this stream's names; its results have these shapes."""
        bench, single = self.writer, len(call.makes) == 1
        fresh = [bench.new_name(value) for value in call.makes]
        renamed = {**names, **{f"{RESULT}.{place}": name for place, name in enumerate(fresh)}}
        described: Sequence[Step] = recipe.described_steps
        if call.case.op == "native_group_norm":
            described = image_lowering.split_group_norm(self, call, described)
        for step in described:
            if "alloc" in step or "host" in step:
                continue
            made = bench.rename_step(step, renamed)
            if step.get("out") == RESULT:
                made = {**made, "out": fresh[0] if single else fresh}
            if isinstance(made.get("makes"), list):
                made["makes"] = [list(shape) for shape in shapes]
            bench.steps.append(made)
        if recipe.operator.kind == "pool":  # the operation chooses the memory of its result, often L1
            bench.move_to_dram(fresh)
        layout = "row_major" if call.case.op in _ROW_MAJOR_RESULTS or _is_padded_in_front(call) else "tile"
        for value, name, shape in zip(call.makes, fresh, shapes, strict=True):
            bench.hold(value, DeviceValue(name, shape, layout, self._result_dtype(call, value), is_last))

    def _result_dtype(self, call: GraphCall, value: int) -> str:
        own = self._graph.values[value].dtype
        if own != "int64" or call.case.op not in _INDEX_DTYPES:
            return self.writer.dtype_of(value)
        is_long = max(self.shape_of(call.takes[0]), default=0) > _MOST_UINT16
        return "uint32" if is_long else _INDEX_DTYPES[call.case.op]

    def _lower_elementwise(self, call: GraphCall) -> bool:
        """Lower an elementwise call on its operands' current form if they agree; False if they must be converted."""
        if len(call.makes) != 1:
            return False
        wanted = self.shape_of(call.makes[0])
        held = {value: self.writer.device_values[value] for value in call.takes if value in self.writer.device_values}
        leads = [one for value, one in held.items() if self.shape_of(value) == wanted and one.shape != wanted]
        if not leads:
            return False
        lead = leads[0]
        shapes = [self._match_shape(value, lead, wanted) for value in call.takes]
        if any(shape is None for shape in shapes):
            return False
        named = [(t, shape) for t, shape in zip(call.case.tensors, shapes, strict=True) if shape is not None]
        recipe = self.lower_case(call.case.op, named, call)
        if recipe.is_free:
            self.writer.alias(call.takes[0], call.makes[0])
            return True
        values = _values_by_name(call, recipe.operator)
        names = self.writer.ensure_inputs(recipe.inputs, values, is_last=lead.is_last)
        self.emit(call, recipe, names, [lead.shape], is_last=lead.is_last)
        return True

    def _match_shape(self, value: int, lead: DeviceValue, wanted: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the shape in which another operand matches the first one; None if it must be converted."""
        own = self.shape_of(value)
        if own == wanted:
            return lead.shape
        if prod(own) == 1:
            return (1,) * len(lead.shape)
        if not lead.is_last:
            return own if own == wanted[-1:] else None
        padded = (1,) * (len(wanted) - len(own)) + own
        if padded[1] == wanted[1] and prod(padded) == wanted[1]:
            return (*(1,) * (len(lead.shape) - 1), wanted[1])
        return None

    def shape_of(self, value: int) -> tuple[int, ...]:
        return self._graph.values[value].shape

    def producer_of(self, value: int) -> GraphCall | None:
        """Return the call that made a value, if no later one wrote into it."""
        return self._producer.get(value)

    def assume(self, text: str) -> None:
        self._assumed[text] += 1

    @property
    def graph(self) -> Graph:
        return self._graph


def _is_padded_in_front(call: GraphCall) -> bool:
    """Return whether a call pads in front, which only row-major tensors allow."""
    return call.case.op == "constant_pad_nd" and any((call.case.args.get("pad") or ())[::2])


def _values_by_name(call: GraphCall, operator: Operator) -> dict[str, int]:
    """Map the case's names of tensors (``self``, ``tensors.0``) to values."""
    found: dict[str, int] = {}
    counts = Counter[str]()
    for tensor, value in zip(call.case.tensors, call.takes, strict=True):
        if operator.is_list(tensor.name):
            if 0 in tensor.shape and any(0 not in other.shape for other in call.case.tensors):
                continue  # nothing is concatenated with nothing
            found[f"{tensor.name}.{counts[tensor.name]}"] = value
            counts[tensor.name] += 1
        else:
            found[tensor.name] = value
    return found


_SEQUENCE = 128


_RECIPE_FIELDS = ("chips", "phase", "users", "context", "kv_cache", "prefill_chunk")


def build_stream(request: Request) -> Stream:
    """Trace the model; build the stream of its forward pass on one chip."""
    if asked := [name for name in _RECIPE_FIELDS if getattr(request, name)]:
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
    graph = _trace_graph(job, request.torch_python)
    weights = [value.name for value in graph.values if value.role == "parameter"]
    for kind in filter(None, request.weights):
        if not any(kind in name for name in weights):
            known = sorted({name.split(".")[-2] for name in weights if "." in name})
            raise BadInputError(f"no weight's name holds '{kind}' (--weights)", hint=f"known: {', '.join(known[:20])}")
    return GraphLowering(graph, request).build_stream()


def _trace_graph(job: TraceJob, python: str | None) -> Graph:
    """Trace a model, or return the last trace: searches repeat the same model with other types and boards."""
    files = [target.partition("::")[0] for target in (job.target, job.inputs) if "::" in target]
    key = repr((job, python, [Path(file).stat().st_mtime_ns for file in files if Path(file).exists()]))
    traced: dict[str, Graph] = _own.__dict__.setdefault("traced", {})
    if key not in traced:
        graph = trace_graph(job, python=python)
        traced.clear()
        traced[key] = graph
    return traced[key]


def forget_graph() -> None:
    """Drop the last trace: a file that the model imports may have changed."""
    _own.__dict__.pop("traced", None)


_own = threading.local()
"""Several threads trace models at the same time."""
