# SPDX-License-Identifier: Apache-2.0
"""Which operation is which where two different programs run one model: a prediction, and a port that was captured.

They share no location, names differ partly (``linear``, ``matmul``) and so does all that only moves data. What they
have in common is the order in which the model computes, and how many elements each operation makes.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ttmem.analysis.alignment import aligned, executed_forms, normalised_location, result_types
from ttmem.profile.model import Profile, Timeline

_SAME = {
    "linear": "matmul",
    "addmm": "matmul",
    "hardtanh": "clamp",
    "relu6": "clamp",
    "clip": "clamp",
    "mul": "multiply",
    "sub": "subtract",
    "add_": "add",
    "conv1d": "conv2d",
    "avg_pool2d": "mean",
    "global_avg_pool2d": "mean",
    "adaptive_avg_pool2d": "mean",
    "softmax_in_place": "softmax",
    "scale_mask_softmax_in_place": "softmax",
    "attention_softmax_": "softmax",
    "scaled_dot_product_attention_decode": "scaled_dot_product_attention",
}
"""Names of one operator."""
_MOVES = frozenset(
    [
        "allocate_tensor_on_device",
        "as_tensor",
        "clone",
        "copy",
        "deallocate",
        "from_device",
        "from_torch",
        "get_device",
        "interleaved_to_sharded",
        "load_cached",
        "move",
        "pad",
        "permute",
        "reallocate",
        "reshape",
        "reshard",
        "sharded_to_interleaved",
        "slice",
        "squeeze",
        "tilize",
        "to_device",
        "to_dtype",
        "to_layout",
        "to_memory_config",
        "to_torch",
        "transpose",
        "typecast",
        "unsqueeze",
        "untilize",
        "view",
        "zeros",
        "zeros_like",
        "ones",
        "full",
        "empty",
        "tilize_with_val_padding",
        "untilize_with_unpadding",
        "tilize_with_zero_padding",
    ]
)
"""What only brings data elsewhere: each program does that in its own way."""
_MOST_CELLS = 8_000_000
_ALIKE = 1.5
"""Elements that two operations make, the more over the fewer, up to which they may be the same step."""
_LEAST_SHARED = 0.25
"""Of the steps of the shorter program: fewer in common and it is another model."""
_UNKNOWN_SIZE, _LIKE_SIZE, _SAME_SIZE = 1, 2, 5
"""How much a pair says for an order of steps."""


def is_other_program(before: Profile, after: Profile) -> bool:
    """Whether both name places, and not one of them is the same: then neither names nor places tell what is what."""
    places = []
    for profile in (before, after):
        forms = np.unique(executed_forms(profile)).tolist()
        places.append({normalised_location(profile.forms.location(form)) for form in forms} - {""})
    return bool(places[0]) and bool(places[1]) and not places[0] & places[1]


class Steps:
    """Two different programs of one model: which operation of the one is which of the other."""

    def __init__(self, before: Profile, after: Profile) -> None:
        self._before, self._after = before, after
        self._known: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def pairs(self, first: int, second: int) -> list[tuple[int, int]]:
        """Of these timelines of the two."""
        if (first, second) not in self._known:
            timelines = self._before.timelines[first], self._after.timelines[second]
            self._known[first, second] = counterparts(self._before, timelines[0], self._after, timelines[1])
        return self._known[first, second]


def counterparts(before: Profile, first: Timeline, after: Profile, second: Timeline) -> list[tuple[int, int]]:
    """Operations of two timelines that are the same step of a model, in order: indices of both.

    None where they share so little that they hardly are programs of one model.
    """
    steps, others = _steps(before, first), _steps(after, second)
    if len(steps) * len(others) > _MOST_CELLS:
        keys = [[(operator, elements) for _, operator, elements in one] for one in (steps, others)]
        found = _rising([(i, j) for i, j in aligned(*keys) if keys[0][i] == keys[1][j]])
    else:
        found = _best(steps, others)
    if len(found) < _LEAST_SHARED * min(len(steps), len(others)):
        return []
    return [(steps[i][0], others[j][0]) for i, j in found]


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for pair in pairs:
        if not kept or pair[1] > kept[-1][1]:
            kept.append(pair)
    return kept


def _steps(profile: Profile, timeline: Timeline) -> list[tuple[int, str, int]]:
    """Every operation that computes: its index, its operator and how many elements it makes."""
    made = _made(profile, timeline)
    found = []
    for position, form in enumerate(timeline.form.tolist()):
        operator = profile.forms.name_of(form).rpartition(".")[2]
        if operator not in _MOVES:
            index = position + timeline.first_index
            found.append((index, _SAME.get(operator, operator), made.get(index) or _of_form(profile, form)))
    return found


def _made(profile: Profile, timeline: Timeline) -> dict[int, int]:
    """Elements of the largest tensor that each operation of a capture makes."""
    made: dict[int, int] = {}
    if timeline.buffers is not None:
        columns = (timeline.buffers.producer, timeline.buffers.tensor_type)
        for producer, number in zip(*(column.tolist() for column in columns), strict=True):
            if producer >= 0 and number >= 0:
                made[producer] = max(made.get(producer, 0), prod(profile.tensor_types[number].shape))
    return made


def _of_form(profile: Profile, form: int) -> int:
    return max((prod(type_.shape) for type_ in result_types(profile, form) if type_), default=0)


def _agreement(sizes: NDArray[np.int64], elements: int) -> NDArray[np.int64]:
    """How well what an operation makes agrees with what each of many makes; 0 where it is another step."""
    if not elements:
        return np.full(len(sizes), _UNKNOWN_SIZE)
    large, small = np.maximum(sizes, elements), np.minimum(sizes, elements)
    alike = np.where(large <= small * _ALIKE, _LIKE_SIZE, 0)
    return np.where(sizes == elements, _SAME_SIZE, np.where(sizes == 0, _UNKNOWN_SIZE, alike))


def _best(steps: Sequence[tuple[int, str, int]], others: Sequence[tuple[int, str, int]]) -> list[tuple[int, int]]:
    """The pairs in order that agree most: the longest common subsequence, where equal sizes count more."""
    if not steps or not others:
        return []
    operators = np.array([operator for _, operator, _ in others])
    sizes = np.array([elements for *_, elements in others], np.int64)
    table = np.zeros((len(steps) + 1, len(others) + 1), np.int32)
    gains = np.zeros((len(steps) + 1, len(others) + 1), np.int8)
    for row, (_, operator, elements) in enumerate(steps, 1):
        gains[row, 1:] = np.where(operators == operator, _agreement(sizes, elements), 0)
        taken = np.where(gains[row, 1:] > 0, table[row - 1, :-1] + gains[row, 1:], 0)
        table[row, 1:] = np.maximum.accumulate(np.maximum(table[row - 1, 1:], taken))
    pairs = []
    row, column = len(steps), len(others)
    while row and column:
        gain = gains[row, column]
        if gain and table[row, column] == table[row - 1, column - 1] + gain:
            row, column = row - 1, column - 1
            pairs.append((row, column))
        elif table[row, column] == table[row - 1, column]:
            row -= 1
        else:
            column -= 1
    return pairs[::-1]
