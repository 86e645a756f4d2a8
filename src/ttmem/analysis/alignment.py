# SPDX-License-Identifier: Apache-2.0
"""Align the operations of two profiles although numbers and lines have moved.

Compilers number everything (`%85`, `fusion.586`), so one more operation renames all that follow. What stays is
the operation's name, its location without those numbers, and its place among its like.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ttmem.profile.model import Profile, Timeline
from ttmem.profile.operation_forms import Int32
from ttmem.profile.tensor_type import TensorType

_HLO_NUMBER = re.compile(r"\.\d+(?=$|_|[^\w.])")
"""``fusion.586``, ``gather.17_workaround``; not the layer in ``layers.0.mlp``."""
_LINE_NUMBER = re.compile(r"(?:(?<=[:|])|^)-?\d+(?=$|[:|,\s)\]])")
"""``model.py:120``, and the numeric fields of ``12|Linear[fc]|model.py:120|forward|131|aten__mm``."""


def normalize_location(location: str) -> str:
    """The location without the numbers that an unrelated edit changes."""
    return _LINE_NUMBER.sub("", _HLO_NUMBER.sub("", location))


def result_types(profile: Profile, form: int) -> tuple[TensorType | None, ...]:
    """The types an operation produces; None for what is not a tensor."""
    _, indices = profile.forms.signatures[profile.forms.signature[form]]
    return tuple(profile.tensor_types[index] if index >= 0 else None for index in indices)


def collect_executed_forms(profile: Profile) -> Int32:
    """The form of every executed operation, process after process."""
    return np.concatenate([timeline.form for timeline in profile.timelines] or [np.empty(0, np.int32)])


def pair_forms(before: Profile, after: Profile, names: Collection[str]) -> dict[int, int]:
    """For the forms of ``after`` with these operation names: the form of ``before`` that is the same operation."""
    left_before, left_after = _forms_in_order(before, names), _forms_in_order(after, names)
    found: dict[int, int] = {}
    # First by name and place in the user's program; then, for what was moved or renamed, by name alone.
    for with_location in (True, False):
        groups_before = _group(before, left_before, with_location=with_location)
        groups_after = _group(after, left_after, with_location=with_location)
        for key, group_after in groups_after.items():
            group_before = groups_before.get(key, [])
            pairs = align(
                [result_types(before, form) for form in group_before],
                [result_types(after, form) for form in group_after],
            )
            found.update((group_after[second], group_before[first]) for first, second in pairs)
        taken = set(found.values())
        left_before = [form for form in left_before if form not in taken]
        left_after = [form for form in left_after if form not in found]
    return found


def align(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs of positions: the common head and tail, then equal items in order, then what is left in order.

    One inserted item stays without a partner and one changed item keeps its own, in linear time.
    """
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    pairs = [(position, position) for position in range(head)]
    pairs += [(len(before) - 1 - back, len(after) - 1 - back) for back in range(tail)]
    equal: dict[Hashable, list[int]] = defaultdict(list)
    for position in range(len(before) - tail - 1, head - 1, -1):
        equal[before[position]].append(position)
    unpaired_after, used = [], set()
    for position in range(head, len(after) - tail):
        if equal[after[position]]:
            used.add(match := equal[after[position]].pop())
            pairs.append((match, position))
        else:
            unpaired_after.append(position)
    unpaired_before = [position for position in range(head, len(before) - tail) if position not in used]
    pairs += zip(unpaired_before, unpaired_after, strict=False)
    return sorted(pairs)


def _forms_in_order(profile: Profile, names: Collection[str]) -> list[int]:
    """Executed forms with these names, by first appearance."""
    forms, first = np.unique(collect_executed_forms(profile), return_index=True)
    wanted = np.array([name in names for name in profile.forms.names], dtype=bool)
    ordered: list[int] = forms[np.argsort(first)].tolist()
    return [form for form in ordered if wanted[profile.forms.name[form]]]


def _group(profile: Profile, forms: Sequence[int], *, with_location: bool) -> dict[tuple[str, str], list[int]]:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for form in forms:
        place = normalize_location(profile.forms.location(form)) if with_location else ""
        groups[profile.forms.name_of(form), place].append(form)
    return groups


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
    """Return True if both have locations and share none: then neither names nor locations can be matched."""
    places = []
    for profile in (before, after):
        forms = np.unique(collect_executed_forms(profile)).tolist()
        places.append({normalize_location(profile.forms.location(form)) for form in forms} - {""})
    return bool(places[0]) and bool(places[1]) and not places[0] & places[1]


class Steps:
    """Two different programs of one model: which operation of the one is which of the other."""

    def __init__(self, before: Profile, after: Profile) -> None:
        self._before, self._after = before, after
        self._known: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def pairs(self, first: int, second: int) -> list[tuple[int, int]]:
        """Return the pairs of these timelines of the two."""
        if (first, second) not in self._known:
            timelines = self._before.timelines[first], self._after.timelines[second]
            self._known[first, second] = match_operations(self._before, timelines[0], self._after, timelines[1])
        return self._known[first, second]


def match_operations(before: Profile, first: Timeline, after: Profile, second: Timeline) -> list[tuple[int, int]]:
    """Operations of two timelines that are the same step of a model, in order: indices of both.

    None where they share so little that they hardly are programs of one model.
    """
    steps, others = _steps(before, first), _steps(after, second)
    if len(steps) * len(others) > _MOST_CELLS:
        keys = [[(operator, elements) for _, operator, elements in one] for one in (steps, others)]
        found = _keep_rising([(i, j) for i, j in align(*keys) if keys[0][i] == keys[1][j]])
    else:
        found = _align_best(steps, others)
    if len(found) < _LEAST_SHARED * min(len(steps), len(others)):
        return []
    return [(steps[i][0], others[j][0]) for i, j in found]


def _keep_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for pair in pairs:
        if not kept or pair[1] > kept[-1][1]:
            kept.append(pair)
    return kept


def _steps(profile: Profile, timeline: Timeline) -> list[tuple[int, str, int]]:
    """Return the computing operations: index, operator and number of elements of the result."""
    made = _count_elements(profile, timeline)
    found = []
    for position, form in enumerate(timeline.form.tolist()):
        operator = profile.forms.name_of(form).rpartition(".")[2]
        if operator not in _MOVES:
            index = position + timeline.first_index
            found.append((index, _SAME.get(operator, operator), made.get(index) or _count_form_elements(profile, form)))
    return found


def _count_elements(profile: Profile, timeline: Timeline) -> dict[int, int]:
    """Elements of the largest tensor that each operation of a capture makes."""
    made: dict[int, int] = {}
    if timeline.buffers is not None:
        columns = (timeline.buffers.producer, timeline.buffers.tensor_type)
        for producer, number in zip(*(column.tolist() for column in columns), strict=True):
            if producer >= 0 and number >= 0:
                made[producer] = max(made.get(producer, 0), prod(profile.tensor_types[number].shape))
    return made


def _count_form_elements(profile: Profile, form: int) -> int:
    return max((prod(type_.shape) for type_ in result_types(profile, form) if type_), default=0)


def _score_sizes(sizes: NDArray[np.int64], elements: int) -> NDArray[np.int64]:
    """Return scores for equal result sizes of an operation and each of many; 0 where it is another step."""
    if not elements:
        return np.full(len(sizes), _UNKNOWN_SIZE)
    large, small = np.maximum(sizes, elements), np.minimum(sizes, elements)
    alike = np.where(large <= small * _ALIKE, _LIKE_SIZE, 0)
    return np.where(sizes == elements, _SAME_SIZE, np.where(sizes == 0, _UNKNOWN_SIZE, alike))


def _align_best(steps: Sequence[tuple[int, str, int]], others: Sequence[tuple[int, str, int]]) -> list[tuple[int, int]]:
    """The pairs in order that agree most: the longest common subsequence, where equal sizes count more."""
    if not steps or not others:
        return []
    operators = np.array([operator for _, operator, _ in others])
    sizes = np.array([elements for *_, elements in others], np.int64)
    table = np.zeros((len(steps) + 1, len(others) + 1), np.int32)
    gains = np.zeros((len(steps) + 1, len(others) + 1), np.int8)
    for row, (_, operator, elements) in enumerate(steps, 1):
        gains[row, 1:] = np.where(operators == operator, _score_sizes(sizes, elements), 0)
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
