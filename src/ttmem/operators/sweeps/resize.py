# SPDX-License-Identifier: Apache-2.0
"""A case with one dimension cut or grown, where the operator allows it: for chunks and for limits.

Cutting dimension d of the input must give a part of the whole result that can be joined again. Which dimensions do is
a property of the operator: any for elementwise ones, all but the one that is reduced, the rows of a matrix product.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs

from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.catalogue_entries import catalogue

Cut = Callable[[Case, int, int], "Case | None"]

_SAME_EVERYWHERE = ("clone", "copy_", "_to_copy", "alias", "zeros_like", "ones_like", "full_like", "empty_like",
                    "fill_")  # fmt: skip
_VIEWS = ("view", "_unsafe_view", "reshape")
_ALONG_DIM = ("slice", "select", "split", "split_with_sizes", "chunk", "unbind", "cumsum", "sort", "topk", "argmax",
              "repeat_interleave", "_softmax", "_safe_softmax", "_log_softmax", "prod", "roll")  # fmt: skip
_REDUCTIONS = ("mean", "sum", "amax", "max", "var", "any", "all", "linalg_vector_norm")
_BATCHED = ("conv", "pool", "norm")


def resizable(case: Case) -> Iterator[int]:
    """Dimensions of the first tensor that can be cut, outermost first."""
    if not case.tensors:
        return
    for dim, size in enumerate(main_shape(case)):
        if resize(case, dim, size) is not None:
            yield dim


def resize(case: Case, dim: int, length: int) -> Case | None:
    """Return the case with another size along a dimension; None where the operator cannot be split there."""
    operator = catalogue().find(case.op)
    if operator is None or not case.tensors:
        return None
    kind = operator.kind
    cut = _BY_NAME.get(case.op)
    if cut is None:
        cut = _elementwise if kind in ("unary", "binary") else _batch if kind in _BATCHED else None
    return cut(case, dim, length) if cut else None


def main_shape(case: Case) -> tuple[int, ...]:
    """Shape of the tensor whose dimensions are counted."""
    return case.tensors[_main_index(case)].shape


def _main_index(case: Case) -> int:
    """The activations: of an addmm the first tensor is the bias."""
    if case.op == "addmm":
        named = [i for i, tensor in enumerate(case.tensors) if tensor.name == "mat1"]
        return named[0] if named else min(1, len(case.tensors) - 1)
    return 0


def _replace_size(case: Case, tensors: list[CaseTensor], **args: Any) -> Case:
    return Case(case.op, tuple(tensors), {**case.args, **args}, case.uses)


def _set(tensor: CaseTensor, dim: int, length: int) -> CaseTensor:
    shape = list(tensor.shape)
    shape[dim] = length
    return structs.replace(tensor, shape=tuple(shape))


def _elementwise(case: Case, dim: int, length: int) -> Case | None:
    """Resize all operands, except those that are broadcast along the dimension."""
    from_right = dim - len(case.tensors[0].shape)
    size = case.tensors[0].shape[dim]
    cut = []
    for tensor in case.tensors:
        own = tensor.shape[from_right] if -from_right <= len(tensor.shape) else 1
        if own not in (1, size) or (size == 1 and own != size):
            return None
        cut.append(_set(tensor, from_right, length) if own == size and -from_right <= len(tensor.shape) else tensor)
    return _replace_size(case, cut)


def _first_only(case: Case, dim: int, length: int, place: int | None = None) -> Case | None:
    """``place``: where the argument ``size``, if there is one, says the same."""
    args, size = {}, case.args.get("size")
    if place is not None and size is not None:
        args["size"] = [*size]
        args["size"][place] = length
    return _replace_size(case, [_set(case.tensors[0], dim, length), *case.tensors[1:]], **args)


def _batch(case: Case, dim: int, length: int) -> Case | None:
    """Images of a batch are independent; rows and channels of one are not (halo, statistics)."""
    if case.op in ("native_layer_norm", "_fused_rms_norm"):
        return _first_only(case, dim, length) if dim < len(case.tensors[0].shape) - 1 else None
    return _first_only(case, dim, length) if dim == 0 and len(case.tensors[0].shape) == 4 else None


def _other_dims(case: Case, dim: int, length: int) -> Case | None:
    """Any dimension but those that the operator works along."""
    rank = len(case.tensors[0].shape)
    dims = case.args.get("dim", case.args.get("dims", -1 if "softmax" in case.op else 0))
    used = dims if isinstance(dims, list) else [dims]
    if any(not isinstance(one, int) for one in used) or dim in {one % rank for one in used}:
        return None
    return _first_only(case, dim, length)


def _reduction(case: Case, dim: int, length: int) -> Case | None:
    dims = case.args.get("dim")
    if dims in (None, []):
        return None  # over everything: partial results would have to be reduced again
    return _other_dims(case, dim, length)


def _join(case: Case, dim: int, length: int) -> Case | None:
    rank = len(case.tensors[0].shape)
    along = case.args.get("dim", 0)
    if not isinstance(along, int) or (case.op == "cat" and dim == along % rank):
        return None
    if any(len(tensor.shape) != rank for tensor in case.tensors):
        return None
    return _replace_size(case, [_set(tensor, dim, length) for tensor in case.tensors])


def _view(case: Case, dim: int, length: int) -> Case | None:
    """Leading dimensions that the view keeps."""
    size, shape = case.args.get("size"), case.tensors[0].shape
    kept = isinstance(size, list) and list(shape[: dim + 1]) == size[: dim + 1]
    return _first_only(case, dim, length, dim) if kept or size is None else None


def _expand(case: Case, dim: int, length: int) -> Case | None:
    size, shape = case.args.get("size"), case.tensors[0].shape
    place = dim - len(shape)
    kept = isinstance(size, list) and -place <= len(size) and size[place] in (-1, shape[dim])
    return _first_only(case, dim, length, place) if kept or size is None else None


def _matrix(case: Case, dim: int, length: int) -> Case | None:
    """Rows of the first operand; batches of both."""
    index = _main_index(case)
    shape = case.tensors[index].shape
    if dim == len(shape) - 1:
        return None
    tensors = list(case.tensors)
    tensors[index] = _set(tensors[index], dim, length)
    if case.op == "addmm" and index == 1 and len(tensors[0].shape) == 2 and tensors[0].shape[0] == shape[dim]:
        tensors[0] = _set(tensors[0], 0, length)
    if case.op in ("bmm", "matmul", "baddbmm") and dim < len(shape) - 2:
        other = index + 1
        if other < len(tensors) and len(tensors[other].shape) == len(shape):
            tensors[other] = _set(tensors[other], dim, length)
    return _replace_size(case, tensors)


def _attention(case: Case, dim: int, length: int) -> Case | None:
    """Batches and heads of query, key and value together."""
    if dim > 1 or len(case.tensors) != 3:
        return None
    return _replace_size(case, [_set(tensor, dim, length) for tensor in case.tensors])


def _unsqueeze(case: Case, dim: int, length: int) -> Case | None:
    return _first_only(case, dim, length) if case.tensors[0].shape[dim] != 1 or case.op == "unsqueeze" else None


_BY_NAME: dict[str, Cut] = {
    **dict.fromkeys(_SAME_EVERYWHERE, _elementwise),
    **dict.fromkeys(_VIEWS, _view),
    **dict.fromkeys(_ALONG_DIM, _other_dims),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(("permute", "transpose", "t"), _first_only),
    **dict.fromkeys(("cat", "stack"), _join),
    **dict.fromkeys(("mm", "bmm", "matmul", "addmm", "linear"), _matrix),
    **dict.fromkeys(("unsqueeze", "squeeze"), _unsqueeze),
    "expand": _expand,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
}
