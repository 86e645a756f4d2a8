# SPDX-License-Identifier: Apache-2.0
"""Lower views, permutations and products on a value's current form: free on the device means free here."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ttmem.operators.extraction import GraphCall
from ttmem.prediction.step_writer import DeviceValue

if TYPE_CHECKING:
    from ttmem.prediction.lowering import GraphLowering

_VIEWS = ("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze")
_STRIDED = ("as_strided", "as_strided_")
_PRODUCTS = ("mm", "addmm")
_ALONG = ("cat", "split", "split_with_sizes", "chunk", "slice")


def is_unchanged(lowering: GraphLowering, call: GraphCall) -> bool:
    """Return whether a strided view keeps every element in place: pooling over one dimension sets strides."""
    if call.case.op not in _STRIDED:
        return False
    shape, args = lowering.shape_of(call.takes[0]), call.case.args
    strides = [prod(shape[at + 1 :]) for at in range(len(shape))]
    given = args.get("stride") or ()
    is_same = tuple(args.get("size") or ()) == shape and len(given) == len(shape) and not args.get("storage_offset")
    return is_same and all(size == 1 or own == new for size, own, new in zip(shape, strides, given, strict=True))


def lower_view_call(lowering: GraphLowering, call: GraphCall) -> bool:
    """Lower the call if it is one of these; return whether it was."""
    held = lowering.writer.device_values.get(call.takes[0]) if call.takes else None
    if call.case.op in _VIEWS and held is not None:
        return _lower_view(lowering, call, held)
    if call.case.op in ("transpose", "permute"):
        return _lower_permute(lowering, call, held)
    if call.case.op in _PRODUCTS:
        return _lower_product(lowering, call)
    return call.case.op in _ALONG and _lower_channel_axis(lowering, call)


def _lower_view(lowering: GraphLowering, call: GraphCall, held: DeviceValue) -> bool:
    (source, made), bench = (call.takes[0], call.makes[0]), lowering.writer
    own, wanted = lowering.shape_of(source), lowering.shape_of(made)
    if held.is_last:
        if wanted[:2] == own[:2] and len(wanted) > 2:  # only pixels are counted differently
            bench.alias(source, made)
            return True
        if prod(own[2:]) == 1 and wanted == own[:2]:
            name = bench.ensure_form(source, wanted, held.layout, held.dtype, is_last=True)
            _hold_again(lowering, made, name, wanted, held)
            return True
        return False
    is_folded = len(wanted) == 2 and wanted[-1] == held.shape[-1]
    if wanted == held.shape or is_folded:  # rows of several sequences are rows
        bench.alias(source, made)
        return True
    if held.shape == own or held.layout != "tile":
        return False
    name = bench.ensure_form(source, wanted, held.layout, held.dtype, is_last=False)
    _hold_again(lowering, made, name, wanted, held)
    return True


def _hold_again(lowering: GraphLowering, made: int, name: str, shape: tuple[int, ...], held: DeviceValue) -> None:
    lowering.writer.hold(made, DeviceValue(name, shape, held.layout, held.dtype))


def _permutation(lowering: GraphLowering, call: GraphCall) -> list[int]:
    rank = len(lowering.shape_of(call.takes[0]))
    if call.case.op == "permute":
        return [dim % rank for dim in call.case.args["dims"]]
    order = list(range(rank))
    first, second = (call.case.args[name] % rank for name in ("dim0", "dim1"))
    order[first], order[second] = order[second], order[first]
    return order


def _lower_permute(lowering: GraphLowering, call: GraphCall, held: DeviceValue | None) -> bool:
    """Lower a permutation that only moves channels: they are at the end already, or may stay there."""
    if held is None:
        return False
    source, made, bench = call.takes[0], call.makes[0], lowering.writer
    order, rank = _permutation(lowering, call), len(lowering.shape_of(source))
    if rank not in (3, 4):
        return False
    to_end, from_end = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    if held.is_last and order == to_end:
        name = bench.ensure_form(source, lowering.shape_of(made), held.layout, held.dtype, is_last=True)
        _hold_again(lowering, made, name, lowering.shape_of(made), held)
        return True
    if not held.is_last and order == from_end and held.shape == lowering.shape_of(source) and rank == 4:
        bench.alias(source, made, is_last=True)
        return True
    return False


def _lower_product(lowering: GraphLowering, call: GraphCall) -> bool:
    """Lower a product of folded rows without folding: ttnn.linear takes any rank."""
    place = 0 if call.case.op == "mm" else 1
    value = call.takes[place]
    held = lowering.writer.device_values.get(value)
    if held is None or held.is_last or held.shape == lowering.shape_of(value):
        return False
    shapes = [(t, held.shape if number == place else t.shape) for number, t in enumerate(call.case.tensors)]
    recipe = lowering.lower_case(call.case.op, shapes, call)
    values = dict(zip((t.name for t in call.case.tensors), call.takes, strict=True))
    names = lowering.writer.ensure_inputs(recipe.inputs, values, is_last=False)
    made = (*held.shape[:-1], lowering.shape_of(call.makes[0])[-1])
    lowering.emit(call, recipe, names, [made])
    return True


def _lower_channel_axis(lowering: GraphLowering, call: GraphCall) -> bool:
    """Join or split along the channels if these are last."""
    if call.case.args.get("dim") not in (1, 1 - len(lowering.shape_of(call.makes[0])) + 0):
        return False
    held = [lowering.writer.device_values.get(value) for value in call.takes]
    leads = [one for one in held if one is not None and one.is_last]
    rank = len(lowering.shape_of(call.makes[0]))
    if not leads or call.case.args["dim"] % rank != 1 or any(one is None for one in held):
        return False
    prefix = leads[0].shape[:-1]
    shapes = [(t, (*prefix, t.shape[1])) for t in call.case.tensors]
    recipe = lowering.lower_case(call.case.op, shapes, call, dim=len(prefix))
    values = {t.name: value for t, value in zip(recipe.inputs, call.takes, strict=True)}
    names = lowering.writer.ensure_inputs(recipe.inputs, values, is_last=True)
    made = [(*prefix, lowering.shape_of(value)[1]) for value in call.makes]
    lowering.emit(call, recipe, names, made, is_last=True)
    return True
