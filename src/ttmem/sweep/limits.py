# SPDX-License-Identifier: Apache-2.0
"""The largest shape that passes: double one dimension until it fails, then bisect; for several widths a frontier."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product, starmap
from math import prod

from ttmem._errors import BadInputError
from ttmem.operators import DEVICE, Case, CaseTensor, catalogue
from ttmem.results import MEMORY_STATUSES, Result
from ttmem.sweep.asking import Asker
from ttmem.sweep.frontier import Frontier, Limit
from ttmem.sweep.plan import Point, Settings
from ttmem.sweep.resize import main_shape, resizable, resized

MOST_ELEMENTS = 1 << 34
"""Four times what the largest board's DRAM holds in bfloat16: beyond, a dimension has no limit worth the name."""
WIDTHS = tuple(32 << step for step in range(10))
"""Widths of a frontier, 32 to 16,384."""


def base_case(op: str, shape: Sequence[int] | None = None) -> Case:
    """The case that is grown: the catalogue's example, or one with this first tensor and the rest filled in."""
    name = catalogue().aten_name(op)
    operator = catalogue().find(name)
    if operator is None:
        import difflib

        close = difflib.get_close_matches(name, catalogue().operators, n=1)
        raise BadInputError(
            f"unknown operator '{op}'", hint=f"did you mean '{close[0]}'?" if close else "'ttmem ops map' lists them"
        )
    if operator.support != DEVICE:
        raise BadInputError(f"{name} does not run on the device", hint=operator.note)
    example = operator.example_case()
    if shape is None:
        return example
    if len(example.tensors) > 1 and not operator.missing_tensors:
        raise BadInputError(f"{name} needs more than one tensor", hint="give a case file instead of --shape")
    dtype = example.tensors[0].dtype if example.tensors else "bfloat16"
    return Case(name, (CaseTensor(tuple(shape), dtype),))


def find_limits(
    cases: Sequence[Case],
    *,
    settings: Settings,
    boards: Sequence[str],
    memories: Sequence[str],
    layouts: Sequence[str] = ("tile",),
    dim: int | None = None,
    widths: Sequence[int] = WIDTHS,
    watch: Callable[[Limit], None] | None = None,
) -> list[Frontier]:
    """Frontiers of every case on every board and memory: limits for each width that it can have, or for its own."""
    with closing(Asker(settings)) as engine:
        frontiers = []
        for point in starmap(Point, product(cases, boards, memories, layouts)):
            grown = _grown(point.case, dim)
            limits = []
            for case in _widths(point.case, grown, widths):
                limits.append(_search(replace(point, case=case), grown, engine))
                if watch:
                    watch(limits[-1])
            frontiers.append(Frontier.over(limits))
        return frontiers


def _grown(case: Case, dim: int | None) -> int:
    """The second-last dimension, rows of tiles, unless another is asked for or it cannot be."""
    able = list(resizable(case))
    if not able:
        raise BadInputError(f"no dimension of {case.op} can be grown by itself", hint="sweep its cases instead")
    rank = len(main_shape(case))
    if dim is not None:
        if not -rank <= dim < rank or dim % rank not in able:
            hint = f"possible: {', '.join(map(str, able))}"
            raise BadInputError(f"dimension {dim} of {case.op} cannot be grown", hint=hint)
        return dim % rank
    return max([one for one in able if one < rank - 1] or able)


def _widths(case: Case, grown: int, widths: Sequence[int]) -> Iterator[Case]:
    last = len(main_shape(case)) - 1
    if last not in resizable(case) or grown == last or not widths:
        yield case
    else:
        yield from filter(None, (resized(case, last, width) for width in widths))


def _search(point: Point, dim: int, engine: Asker) -> Limit:
    """Small first: the sizes 1, 2, 4, ... until one fails, then halves of the gap."""
    case = point.case
    asked = 0

    def ask(length: int) -> tuple[Case, Result]:
        nonlocal asked
        asked += 1
        changed = resized(case, dim, length)
        assert changed is not None
        return changed, next(iter(engine.ask([replace(point, case=changed)])))

    best: tuple[Case, Result] | None = None
    failed: tuple[Case, Result] | None = None
    low, length = 0, 1
    per_unit = max(prod(main_shape(case)) // max(main_shape(case)[dim], 1), 1)
    while length * per_unit <= MOST_ELEMENTS:
        found = ask(length)
        if found[1].status != "pass":
            if best is None and length < 32 and found[1].status not in MEMORY_STATUSES:
                length *= 2  # some operations refuse sizes below a tile
                continue
            failed = found
            break
        best, low = found, length
        length *= 2
    if best is not None and failed is not None:
        high = length
        while high - low > 1:
            middle = (low + high) // 2
            found = ask(middle)
            if found[1].status == "pass":
                best, low = found, middle
            else:
                failed, high = found, middle
    answered = best or failed
    return Limit(
        case.op,
        point.board,
        point.memory,
        point.layout,
        engine=answered[1].engine if answered else "",
        dim=dim,
        shape=main_shape(best[0]) if best else None,
        fails_at=main_shape(failed[0]) if failed else None,
        status=failed[1].status if failed else "none",
        message=failed[1].message if failed else "it did not fail up to the largest size that was tried",
        padded_bytes=best[1].padded_bytes if best else None,
        peak_bytes_per_bank=best[1].peak_bytes_per_bank if best else None,
        confidence=_least_sure(best, failed),
        asked=asked,
    )


def _least_sure(*found: tuple[Case, Result] | None) -> str:
    order = ("real", "exact", "bounded", "unknown")
    return max((one[1].confidence for one in found if one), key=order.index, default="unknown")
