# SPDX-License-Identifier: Apache-2.0
"""Lower image operators: channels are last on the device, convolution weights are prepared once, norms are folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

from ttmem.base.errors import TtmemError
from ttmem.hardware import DATA_TYPES, DRAM, HOST, MemoryMap
from ttmem.operators.bound_case import CannotRunError
from ttmem.operators.case_program import CaseProgram, DeviceTensor
from ttmem.operators.extraction import Graph, GraphCall
from ttmem.prediction.step_writer import DeviceValue
from ttmem.prediction.stream import WEIGHT, Step
from ttmem.twin.operations import RECORDS, build_call, parse_call
from ttmem.twin.operations.plan import Allocate
from ttmem.twin.operations.registry import plan_call
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import LAYOUTS, TensorSpec

if TYPE_CHECKING:
    from ttmem.prediction.lowering import GraphLowering


_NORMS = ("native_batch_norm", "_native_batch_norm_legit_no_training")
_FOLDED = "batch norms are folded into the convolution before them"
_AFFINE = "a batch norm without a convolution before it is a product and a sum"
_FLOAT_BYTES, _PAGE_BYTES = 4, 32
_TILE = 32
_VOLUME = 5
"""Rank of the weight of a 3D convolution."""
_IN_BLOCKS = "group norms are done in blocks where a sample is more than a core holds"
_NORM_BYTES, _NORM_BUFFERS = 1_000_000, 7
"""L1 budget for the buffers of a group norm, and the number of buffers that hold a block."""


def count_as_loaded_bytes(graph: Graph) -> int:
    """Count the bytes that careless loaders keep as well: row-major float32 kernels, norms with a tile per channel.

    A row of a kernel is three numbers, and a page is at least 32 bytes; [1, C, 1, 1] is padded to C tiles.
    """
    kernels = {value: graph.values[value].shape for call in graph.calls if call.case.op == "convolution"
               for value in call.takes[1:2]}  # fmt: skip
    rows = sum(prod(shape[:-1]) * (-(-shape[-1] * _FLOAT_BYTES // _PAGE_BYTES) * _PAGE_BYTES)
               for shape in kernels.values())  # fmt: skip
    norms = {value for call in graph.calls if call.case.op in _NORMS for value in call.takes[1:]}
    return rows + sum(prod(graph.values[value].shape) * 2 * _TILE * _TILE for value in norms)


def lower_image_call(lowering: GraphLowering, call: GraphCall) -> bool:
    """Lower the call if it is one of these; return whether it was."""
    if call.case.op in _NORMS:
        return _lower_batch_norm(lowering, call)
    if call.case.op == "convolution" and len(lowering.shape_of(call.takes[1])) == _VOLUME:
        return _lower_conv3d(lowering, call)
    return call.case.op == "mean" and _lower_global_pool(lowering, call)


def channels_last_shape(form: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a result whose channels are last according to the catalogue."""
    if not form:
        return shape or (1,)
    batch, channels, *spatial = shape if len(shape) > 2 else (1, *shape)
    if form == "channels_last":
        return (batch, *spatial, channels)
    return (1, 1, batch * prod(spatial), channels) if form.endswith("rows") else (batch, 1, prod(spatial), channels)


def prepare_weight(lowering: GraphLowering, call: GraphCall, recipe: CaseProgram, tensor: DeviceTensor) -> str:
    """Load weights or bias as the library prepares them: in DRAM, and dense even if the convolution is grouped."""
    place = [t.name for t in call.case.tensors].index(tensor.argument)
    value = call.takes[place]
    values, bench = lowering.graph.values, lowering.writer
    if value in bench.device_values:
        raise CannotRunError("the weights are computed while the model runs")
    name = values[value].name or f"constant of {call.module}"
    dtype = bench.weight_dtype(name, tensor.dtype)
    known = _find_prepared_shape(lowering, call, recipe, dtype)
    if tensor.argument == "bias":
        width = known[-1] if known else prod(tensor.shape)
        return bench.load(name, WEIGHT, (value,), (1, 1, 1, width), "tile", tensor.dtype)
    if known is not None:
        return bench.load(name, WEIGHT, (value,), known, "tile", dtype)
    out, per_group, *kernel = values[value].shape
    groups = int(call.case.args.get("groups") or 1)
    if call.case.args.get("transposed"):
        out, channels = per_group * groups, out
    else:
        channels = per_group * groups
    is_product = kernel == list(call.case.args["stride"]) and not any(call.case.args["padding"])
    rows = prod(kernel) * (channels if is_product else -(-channels // _TILE) * _TILE)
    return bench.load(name, WEIGHT, (value,), (1, 1, rows, out), "tile", dtype)


def _find_prepared_shape(
    lowering: GraphLowering, call: GraphCall, recipe: CaseProgram, dtype: str
) -> tuple[int, ...] | None:
    """Ask the twin for the shape of the prepared weights, always with a bias, which follows the weights."""
    shapes = {t.name: tuple(t.shape) for t in recipe.inputs}
    shapes.setdefault("bias", (1, 1, 1, lowering.shape_of(call.makes[0])[1]))
    step = next(step for step in recipe.steps if "call" in step)
    kwargs = {**step["kwargs"], "bias_tensor": {"tensor": "bias"}}
    return find_weight_shape({**step, "kwargs": kwargs}, shapes, dtype, lowering.memory_map)


def _lower_batch_norm(lowering: GraphLowering, call: GraphCall) -> bool:
    """Lower a batch norm: at inference it is folded into a preceding convolution, or is a product and a sum."""
    source, made, bench = call.takes[0], call.makes[0], lowering.writer
    before = lowering.producer_of(source)
    if before is not None and before.case.op == "convolution" and lowering.count_uses(source) == 1:
        lowering.assume(_FOLDED)
        bench.alias(source, made)
        return True
    lowering.assume(_AFFINE)
    channels = lowering.shape_of(source)[1]
    if source not in bench.device_values:
        bench.ensure_form(source, lowering.shape_of(source), "tile", bench.dtype_of(source))
    held, own = bench.device_values[source], lowering.shape_of(source)
    if not held.is_last and len(own) > 2 and held.shape != own:
        bench.ensure_form(source, own, "tile", held.dtype)
        held = bench.device_values[source]
    shape = [1] * len(held.shape)
    shape[-1 if held.is_last or len(own) == 2 else 1] = channels
    name = held.name if held.layout == "tile" else bench.ensure_form(
        source, held.shape, "tile", held.dtype, is_last=held.is_last)  # fmt: skip
    for function, factor in (("multiply", "scale"), ("add", "shift")):
        path = f"{call.module} {factor}"
        beside = bench.load(path, WEIGHT, (path,), shape, "tile", held.dtype)
        out = bench.new_name(made)
        bench.write(function, [name, beside], out, "elementwise")
        if factor == "shift":
            bench.steps.append({"free": name})
        name = out
    bench.hold(made, DeviceValue(name, held.shape, "tile", held.dtype, held.is_last))
    return True


def _lower_conv3d(lowering: GraphLowering, call: GraphCall) -> bool:
    """Lower a 3D convolution: row-major input with whole tiles of channels, weights as a matrix."""
    source, made, bench, args = call.takes[0], call.makes[0], lowering.writer, call.case.args
    if args.get("transposed"):
        return False
    batch, channels, *size = lowering.shape_of(source)
    out, per_group, *kernel = lowering.shape_of(call.takes[1])
    wide = -(-channels // _TILE) * _TILE
    groups = int(args.get("groups") or 1)
    if groups > 1 and (wide > channels or args.get("dilation") != [1, 1, 1]):
        raise CannotRunError("a grouped convolution over three dimensions of odd channels has no form here")
    dtype = bench.dtype_of(source)
    name = bench.ensure_form(source, (batch, *size, channels), "row_major", dtype, is_last=True)
    if wide > channels:
        padded = bench.new_name(made)
        pairs = [{"tuple": [0, 0]}] * 4 + [{"tuple": [0, wide - channels]}]
        bench.write("pad", [name, pairs, 0.0], padded, [[batch, *size, wide]])
        name = padded
    weight = lowering.graph.values[call.takes[1]].name or f"constant of {call.module}"
    rows = prod(kernel) * (wide if groups == 1 else per_group)
    weight_dtype = bench.weight_dtype(weight, dtype)
    weight_name = bench.load(weight, WEIGHT, (call.takes[1],), (rows, out), "tile", weight_dtype)
    tensors = {"input_tensor": {"tensor": name}, "weight_tensor": {"tensor": weight_name}}
    if len(call.takes) > 2:  # a bias
        bias = lowering.graph.values[call.takes[2]].name or f"constant of {call.module}"
        tensors["bias_tensor"] = {"tensor": bench.load(bias, WEIGHT, (call.takes[2],), (1, out), "tile", dtype)}
    result = bench.new_name(made)
    shape = lowering.shape_of(made)
    options = {"device": {"device": 0}, "dtype": {"dtype": "bfloat16"}, "output_channels": out, "kernel_size": kernel}
    options |= {key: args[key] for key in ("stride", "padding", "dilation")}
    options |= {"groups": groups, "padding_mode": "zeros"}
    made_shape = (shape[0], *shape[2:], out)
    bench.write("experimental.conv3d", [], result, [list(made_shape)], **tensors, **options)
    if wide > channels:
        bench.steps.append({"free": name})
    bench.hold(made, DeviceValue(result, made_shape, "row_major", dtype, is_last=True))
    return True


def split_group_norm(lowering: GraphLowering, call: GraphCall, steps: Sequence[Step]) -> Sequence[Step]:
    """Split the group norm of a large sample into as many blocks as its buffers need."""
    _, channels, *spatial = lowering.shape_of(call.takes[0])
    of_a_group = channels // int(call.case.args["group"])
    rows, columns = -(-prod(spatial) // _TILE), -(-of_a_group // _TILE) + 1
    blocks = min(rows, -(-_NORM_BUFFERS * rows * columns * 2 * _TILE * _TILE // _NORM_BYTES))
    if blocks < 2:
        return steps
    lowering.assume(_IN_BLOCKS)
    return [
        {**step, "kwargs": {**step["kwargs"], "num_out_blocks": blocks}}
        if step.get("call") == "ttnn.group_norm"
        else step
        for step in steps
    ]


def _lower_global_pool(lowering: GraphLowering, call: GraphCall) -> bool:
    source, made, bench = call.takes[0], call.makes[0], lowering.writer
    held, own = bench.device_values.get(source), lowering.shape_of(source)
    dims = call.case.args.get("dim") or []
    if held is None or not held.is_last or sorted(dim % len(own) for dim in dims) != list(range(2, len(own))):
        return False
    batch, channels, *spatial = own
    name = bench.ensure_form(source, (batch, 1, prod(spatial), channels), "tile", held.dtype, is_last=True)
    out = bench.new_name(made)
    bench.write("mean", [name], out, [[batch, 1, 1, channels]], dim=2, keepdim=True)
    bench.hold(made, DeviceValue(out, (batch, 1, 1, channels), "tile", held.dtype, is_last=True))
    if not call.case.args.get("keepdim"):
        wanted = lowering.shape_of(made)
        flat = bench.new_name(made)
        bench.write("reshape", [out, list(wanted)], flat, [list(wanted)])
        bench.hold(made, DeviceValue(flat, wanted, "tile", held.dtype))
    return True


def find_weight_shape(
    step: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], dtype: str, memory_map: MemoryMap
) -> tuple[int, ...] | None:
    """Return the prepared shape of a call's host weights; None if the twin has no rule."""
    written = parse_call(step)
    record = RECORDS.get(written.function)
    if record is None:
        return None
    rows, tiles = LAYOUTS.find("row_major"), LAYOUTS.find("tile")
    specs = [
        TensorSpec(shapes[name], DATA_TYPES.find(dtype), rows, DRAM if name == "input" else HOST)
        for name in written.tensors
    ]
    try:
        plan = plan_call(build_call(record, written, specs), memory_map)
    except TtmemError:
        return None
    made = [one.spec for one in plan.steps if isinstance(one, Allocate) and one.spec.layout is tiles]
    weight = next((weight for weight, bias in pairwise(made) if _are_weight_and_bias(weight, bias)), None)
    if weight is None:
        return None
    return weight.shape if weight.alignment == (1, 1) else compute_paging(weight).padded_shape


def _are_weight_and_bias(weight: TensorSpec, bias: TensorSpec) -> bool:
    are_matrices = weight.shape[:2] == bias.shape[:2] == (1, 1) and weight.shape[-1] == bias.shape[-1]
    return are_matrices and bias.shape[2] in (1, _TILE) and weight.memory is bias.memory is DRAM
