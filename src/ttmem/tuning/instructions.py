# SPDX-License-Identifier: Apache-2.0
"""Instructions for making an edit: where, what to type, and the cost."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.analysis.findings import LATE_FREE, LEAK, UNUSED_REGION, WIDE_DTYPE, Finding
from ttmem.base.formatting import format_mib
from ttmem.profile.device_history import shorten_path
from ttmem.profile.model import MEMORIES
from ttmem.tuning import edits
from ttmem.tuning.apply_edit import LAST, find_reusable_input
from ttmem.tuning.captured_run import CapturedRun
from ttmem.tuning.edited_run import AppliedEdit, EditedRun
from ttmem.tuning.free_points import find_free_point
from ttmem.tuning.groups import Group
from ttmem.tuning.patch import Hunk
from ttmem.tuning.proposals import name_first_argument

_MOST_PLACES = 3


@dataclass(frozen=True, slots=True)
class Instruction:
    """Instructions for one edit."""

    location: str
    """The line to change, or after which to add lines."""
    code: str | None
    """Lines to add after it; None if adding lines is not enough."""
    change: str
    """The same in words."""
    cost: str


def build_instruction(draft: EditedRun, applied: AppliedEdit, hunk: Hunk) -> Instruction:
    edit, run = applied.edit, draft.history
    group = applied.groups[0] if applied.groups else None
    if edit.kind == edits.REGION:
        option = "l1_small_size" if edit.target.upper() == "L1_SMALL" else "trace_region_size"
        words = f"open the device with `{option}={edit.value}`"
        return Instruction("", None, words, "none, as long as nothing uses the region")
    if edit.kind == edits.BOARD or group is None:
        return Instruction("", None, f"run on `--board {edit.value}`", "another board")
    made = _find_call_place(run, group)
    if edit.kind == edits.FREE:
        return _describe_free(run, group, hunk, made)
    words, cost = _describe_option(run, applied, group, made)
    return Instruction(made, None, words, cost)


def _describe_free(run: CapturedRun, group: Group, hunk: Hunk, made: str) -> Instruction:
    point = find_free_point(run, group)
    if hunk.inserted:
        code = hunk.inserted
        return Instruction(str(point.place), code, f"add `{code.strip()}` after {point.place}", "none")
    if hunk.replacements:
        free = f"free the tensor that `{group.name}` names"
        words = (
            f"{free} before line {point.kept[0]}, after that line"
            if point.kept is not None
            else f"{free} before the return"
        )
        return Instruction(str(point.place), None, words, "none")
    last = sorted({one for _, one in point.after if 0 <= one < len(run.operations)})
    places = list(dict.fromkeys(run.operations[one].location for one in last)) or [made]
    shown = ", ".join(places[:_MOST_PLACES]) + (
        f" and {len(places) - _MOST_PLACES} more lines" * (len(places) > _MOST_PLACES)
    )
    words = f"free `{group.name}`, made at {made}, where nothing reads it any more (last read in this run: {shown})"
    return Instruction(places[-1], None, words, "none, if nothing reads it after that")


def _describe_option(run: CapturedRun, applied: AppliedEdit, group: Group, made: str) -> tuple[str, str]:
    """Return the change of the call that makes the tensors, and its cost."""
    edit = applied.edit
    call = f"the call at {made}" if made else "the call that makes it"
    if made and group.site.file and shorten_path(str(group.site)) != made:
        call += f" for what {shorten_path(str(group.site))} makes with it"
    if edit.kind == edits.INPLACE:
        other = find_reusable_input(run, group.lives[0])
        name = name_first_argument(run, group) or (other.name if other is not None else "its input")
        return f"pass `output_tensor={name}` to {call}", f"`{name}` is overwritten"
    if edit.kind == edits.MEMORY:
        size = format_mib(sum(life.total_bytes for life in group.lives))
        where = edit.value.upper()
        words = f"pass `memory_config=ttnn.{where}_MEMORY_CONFIG` to {call}"
        return words, f"{size} are read and written in {where} instead"
    if edit.kind == edits.DTYPE:
        return f"pass `dtype=ttnn.{edit.value}` to {call}", "fewer bits for every value"
    if edit.kind == edits.ORDER:
        use = run.operations[group.lives[0].uses[0]].location if group.lives[0].uses else ""
        when = f"right before its first use at {use}" if edit.value == LAST else "before everything else"
        return f"make `{group.name}` {when}", "none, if it is needed once"
    if edit.kind == edits.SHARD:
        return f"pass another memory_config to {call}: {edit.value}", "operations may need a copy in another form"
    name = run.operations[group.lives[0].producer].name
    words = f"call `ttmem.chunked({name}, dim=...)` at {made}, in {edit.value} parts"
    return words, f"{edit.value} launches and copies of the parts"


def is_repeated(run: CapturedRun, finding: Finding, applied: AppliedEdit) -> bool:
    """Return whether an edit already covers a finding."""
    edit = applied.edit
    if finding.kind == UNUSED_REGION:
        return edit.kind == edits.REGION and edit.target.upper() == finding.memory
    if finding.kind == WIDE_DTYPE:
        takes_care = edit.kind == edits.DTYPE
    else:
        takes_care = finding.kind in (LEAK, LATE_FREE) and edit.kind not in (edits.DTYPE, edits.REGION)
    numbers = set(applied.change)
    return takes_care and any(
        life.producer >= 0
        and run.operations[life.producer].location == finding.location
        and MEMORIES[life.memory] == finding.memory
        for life in run.lives
        if life.number in numbers
    )


def _find_call_place(run: CapturedRun, group: Group) -> str:
    """Return the call that makes it, which may be inside of the statement that names it."""
    producer = group.lives[0].producer
    return run.operations[producer].location if producer >= 0 else str(group.site)
