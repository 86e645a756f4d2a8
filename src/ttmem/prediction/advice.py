# SPDX-License-Identifier: Apache-2.0
"""Suggest changes that make a model fit. Each is applied and predicted again; the smallest that fits comes first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ttmem.analysis.failure import failure
from ttmem.base.errors import BadInputError
from ttmem.hardware import BOARDS, DRAM, open_board
from ttmem.prediction.language.configuration import wants_recipe
from ttmem.prediction.largest import search_largest
from ttmem.prediction.request import (
    EAGER,
    FUSED,
    L1_SMALL_BYTES,
    LAST_USE,
    PREFILL,
    PYTHON,
    Prediction,
    Request,
    find_demands,
)

Predict = Callable[[Request], Prediction]

_BLOCK_FLOATS = ("bfloat8_b", "bfloat4_b")
_CHUNKS = (2048, 512)
_TILE = 32
_REGION_FACTORS = (2, 4, 8)


@dataclass(frozen=True, slots=True)
class RequestChange:
    """A change of a request, and the prediction with it."""

    do: str
    peak_bytes_per_bank: int
    """DRAM."""
    fits: bool
    saves_bytes: int
    """Lower bound of the saving in DRAM on one chip, over all banks: a run that failed may have needed more later."""


def suggest_changes(prediction: Prediction, predict: Predict) -> tuple[RequestChange, ...]:
    """Suggest changes for a prediction that does not fit; changes without an effect are left out."""
    request = prediction.request
    if prediction.fits:
        return ()
    tried = [
        _assess_change(text, prediction, made)
        for text, changed in (*_list_changes(request), *_round_to_tiles(request))
        if (made := _try_predict(predict, changed)) is not None
    ]
    together = _combine_changes(request)
    if together and not any(one.fits for one in tried):
        made = _try_predict(predict, together[1])
        tried += [_assess_change(together[0], prediction, made)] if made else []
    tried += _suggest_smaller_quantities(prediction, predict)
    tried += _suggest_more_chips(prediction, predict)
    tried += [
        _assess_change(f"--board {name}", prediction, made) for name, made in _find_larger_board(request, predict)
    ]
    failed = failure(prediction.profile)
    in_dram = failed is not None and failed.memory == "DRAM"
    if failed is not None and failed.memory == "L1_SMALL":
        tried = [*_suggest_larger_region(prediction, predict), *tried]
    useful = [one for one in tried if one.fits or (in_dram and one.saves_bytes > 0)]
    return tuple(sorted(useful, key=lambda one: not one.fits))


def _assess_change(text: str, before: Prediction, after: Prediction) -> RequestChange:
    was, now = find_demands(before)["DRAM"], find_demands(after)["DRAM"]
    saved = was.peak_bytes_per_bank * was.banks - now.peak_bytes_per_bank * now.banks
    return RequestChange(text, now.peak_bytes_per_bank, after.fits, saved)


def _try_predict(predict: Predict, request: Request) -> Prediction | None:
    """Predict; None if the model does not support the change."""
    try:
        made = predict(request)
    except BadInputError:
        return None
    return made if "DRAM" in find_demands(made) else None


def _list_changes(request: Request) -> Iterator[tuple[str, Request]]:
    """Yield single changes; those that change no result first."""
    if request.liveness == PYTHON:
        yield "free tensors after their last use (--liveness last-use)", replace(request, liveness=LAST_USE)
    if request.attention == EAGER:
        yield "fused attention (--attention fused)", replace(request, attention=FUSED)
    if request.phase == PREFILL:
        length = request.sequence or request.context or 0
        for chunk in _CHUNKS:
            if chunk < min(length, request.prefill_chunk or length):
                yield f"prefill in chunks (--prefill-chunk {chunk})", replace(request, prefill_chunk=chunk)
    for dtype in _BLOCK_FLOATS if wants_recipe(request) else ():
        if request.kv_cache not in _BLOCK_FLOATS[_BLOCK_FLOATS.index(dtype) :]:
            yield f"the cache in {dtype} (--kv-cache {dtype})", replace(request, kv_cache=dtype)
    for dtype in _BLOCK_FLOATS:
        if dtype not in request.weights.values():
            yield f"weights in {dtype} (--weights {dtype})", replace(request, weights={"": dtype})


def _round_to_tiles(request: Request) -> Iterator[tuple[str, Request]]:
    """Round lengths down to whole tiles: a length just over a tile occupies the whole next one."""
    length, size = request.sequence, request.size
    if length and length > _TILE and length % _TILE:
        whole = length - length % _TILE
        yield f"whole tiles (--seq {whole})", replace(request, sequence=whole)
    if size and min(size) > _TILE and any(side % _TILE for side in size):
        height, width = (side - side % _TILE for side in size)
        yield f"whole tiles (--size {height}x{width})", replace(request, size=(height, width))


def _combine_changes(request: Request) -> tuple[str, Request] | None:
    """Combine the changes that keep the results nearly as they are."""
    changes: dict[str, Any] = {}
    words: dict[str, str] = {}
    for text, changed in _list_changes(request):
        if "bfloat4_b" not in text:
            changes |= {
                name: getattr(changed, name)
                for name in ("liveness", "attention", "prefill_chunk", "kv_cache", "weights")
                if getattr(changed, name) != getattr(request, name)
            }
            option = text[text.rindex("(") + 1 : -1]
            words[option.split()[0]] = option
    return (" ".join(words.values()), replace(request, **changes)) if len(words) > 1 else None


def _suggest_smaller_quantities(prediction: Prediction, predict: Predict) -> list[RequestChange]:
    request, found = prediction.request, []
    for quantity, value in (("batch", request.batch), ("users", request.users or 1), ("context", request.context or 1)):
        if value > 1 and (quantity == "batch") != wants_recipe(request):
            try:
                largest = search_largest(request, quantity, predict, most=value)
            except BadInputError:
                continue
            if largest.value:
                found.append(_assess_change(f"--{quantity} {largest.value}", prediction, largest.prediction))
    return found


def _suggest_larger_region(prediction: Prediction, predict: Predict) -> Iterator[RequestChange]:
    """Suggest a larger L1_SMALL region, which holds the tables of convolutions and pools."""
    request = prediction.request
    for factor in _REGION_FACTORS:
        size = request.l1_small_bytes * factor or L1_SMALL_BYTES
        made = _try_predict(predict, replace(request, l1_small_bytes=size))
        if made is not None and made.fits:
            yield _assess_change(f"--l1-small {size}", prediction, made)
            return


def _suggest_more_chips(prediction: Prediction, predict: Predict) -> Iterator[RequestChange]:
    """Suggest the fewest chips of the same board that fit, if the request left some out."""
    request = prediction.request
    chips = 2 * (request.chips or BOARDS.find(request.board).chips)
    while wants_recipe(request) and chips <= BOARDS.find(request.board).chips:
        made = _try_predict(predict, replace(request, chips=chips))
        if made is not None and made.fits:
            yield _assess_change(f"--chips {chips}", prediction, made)
            return
        chips *= 2


def _find_larger_board(request: Request, predict: Predict) -> Iterator[tuple[str, Prediction]]:
    """Find the first board with more memory per chip, or more chips for a model that can be split, that fits."""
    own = BOARDS.find(request.board)
    pool = open_board(own.name).pool(DRAM)
    for board in BOARDS:
        if not board.runs_operations or board is own:
            continue
        other = open_board(board.name).pool(DRAM)
        is_larger = other.banks * other.bytes_per_bank > pool.banks * pool.bytes_per_bank
        if is_larger or (wants_recipe(request) and board.chips > own.chips):
            made = _try_predict(predict, replace(request, board=board.name, chips=None))
            if made is not None and made.fits:
                yield board.name, made
                return
