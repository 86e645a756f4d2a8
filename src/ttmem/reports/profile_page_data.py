# SPDX-License-Identifier: Apache-2.0
"""The data of a profile's page: every operation and memory state as columns, and the lifetime of each tensor.

Python computes, the page draws. The whole document of ``--json`` is included, so that no figure is computed twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ttmem.analysis.architecture import guess_architecture
from ttmem.analysis.lifetimes import TensorLife, lifetimes
from ttmem.analysis.states import bank_size
from ttmem.hardware import Architecture
from ttmem.profile.model import L1_PARTS, MEMORIES, Profile, Timeline
from ttmem.profile.operation_forms import Int64, OperationForms
from ttmem.profile.runs import Run
from ttmem.profile.tensor_type import TensorType
from ttmem.reports.kit.pages import PackedColumns, clean_text
from ttmem.reports.profile_analyses import Analyses, analyze

_MOST_FOLLOWED = 20_000
"""Operations whose tensors are followed for the page: a page is written for every profile, and must not cost more than
reading it. The run of the peak comes first."""
_MOST_FOLLOWED_OF_A_RUN = 100_000
_MOST_BYTES = 7_200_000
"""Compressed, so that a page stays below 10 MB as text; beyond it the texts of operations stay in the profile."""
WEIGHT, UPLOAD, ACTIVATION, TEMPORARY = range(4)
_UPLOADS = ("ttnn.to_device", "ttnn.from_torch", "ttnn.as_tensor", "ttnn.allocate_tensor_on_device", "ttnn.copy_host")
_PROGRAM_COLUMNS = ("parent", "run", "first_operation", "end_operation", "finished", "first_state", "end_state")
_TYPE_FACTS = ("shape", "dtype", "layout", "memory", "placement", "logical_bytes", "padded_bytes")


@dataclass(slots=True)
class _NumberedItems:
    """Things that many rows share, each once."""

    numbers: dict[Any, int] = field(default_factory=dict)

    def number(self, item: Any) -> int:
        return self.numbers.setdefault(item, len(self.numbers))


_LIFE_COLUMNS = (
    "timeline", "name", "program", "type", "memory", "kind", "producer", "first", "last", "last_use", "first_state",
    "last_state", "bytes", "address",
)  # fmt: skip
_LAST, _FIRST_STATE, _LAST_STATE = map(_LIFE_COLUMNS.index, ("last", "first_state", "last_state"))


@dataclass(slots=True)
class _Lives:
    """The rows of the table of tensors."""

    rows: list[list[int]] = field(default_factory=list)
    places: dict[tuple[object, ...], int] = field(default_factory=dict)
    names: _NumberedItems = field(default_factory=_NumberedItems)
    types: _NumberedItems = field(default_factory=_NumberedItems)

    def add(self, timeline: int, life: TensorLife, first_state: int, last_state: int) -> int:
        """Its row. What several runs find there (weights, caches) is one row over all of them."""
        key = (timeline, life.name, life.type, life.first_index, life.producer_index, life.address)
        if (known := self.places.get(key)) is not None:
            row = self.rows[known]
            row[_LAST] = max(row[_LAST], life.last_index)
            row[_FIRST_STATE], row[_LAST_STATE] = min(row[_FIRST_STATE], first_state), max(row[_LAST_STATE], last_state)
            return known
        self.places[key] = len(self.rows)
        self.rows.append(
            [
                timeline,
                self.names.number(life.name),
                self.names.number(life.program),
                self.types.number(life.type),
                MEMORIES.index(life.type.memory),
                _find_kind(life),
                -1 if life.producer_index is None else life.producer_index,
                life.first_index,
                life.last_index,
                -1 if life.last_use_index is None else life.last_use_index,
                first_state,
                last_state,
                life.bytes_per_bank,
                -1 if life.address is None else life.address,
            ]
        )
        return self.places[key]


def build_blocks(profile: Profile, more: dict[str, Any]) -> list[bytes]:
    """The compressed blocks of one profile: columns first, then the texts of its operations."""
    known = analyze(profile)
    lives = _Lives()
    followed = list(_follow(profile, known, lives))
    alive = {
        live.memory: [lives.add(live.peak.timeline, life, live.peak.state, live.peak.state) for life in live.tensors]
        for live in known.live.values()
    }
    architecture = guess_architecture(profile)
    words = _read_rank_words(profile)
    forms = profile.forms
    packed = PackedColumns(
        {
            **more,
            "names": clean_text(list(lives.names.numbers)),
            "types": [_list_type_facts(item) for item in lives.types.numbers],
            "form_names": clean_text(list(forms.names)),
            "form_types": [_list_type_facts(item) for item in profile.tensor_types],
            "signatures": [[list(operands), list(results)] for operands, results in forms.signatures],
            "timelines": [
                {
                    "rank": timeline.rank,
                    "words": clean_text(words.get(f"rank {timeline.rank}", "")),
                    "first_index": timeline.first_index,
                    "operations": len(timeline),
                    "states": len(timeline.state_kind),
                    "program_names": clean_text([program.name for program in timeline.programs]),
                    "captured": timeline.buffers is not None,
                    "programs_known": timeline.programs_l1 is not None,
                    "extents": _find_extents(profile, timeline, architecture),
                }
                for timeline in profile.timelines
            ],
            "followed": followed,
            "alive_at_peak": alive,
        }
    )
    _add_columns(packed, profile)
    packed.add_table(
        "lives", dict(zip(_LIFE_COLUMNS, zip(*lives.rows, strict=True), strict=True)) if lives.rows else {}
    )
    columns = packed.compress()
    return [columns, _pack_texts(forms, room=_MOST_BYTES - len(columns))]


def _read_rank_words(profile: Profile) -> dict[str, str]:
    """``rank 1`` -> ``submesh 1x4 of rank 0, chips 4 0 2 6``: what a run says of its devices."""
    ranks = profile.facts.get("ranks")
    parted = (str(one).partition(": ") for one in (ranks if isinstance(ranks, list | tuple) else ()))
    return {rank: words for rank, _, words in parted}


def _pack_texts(forms: OperationForms, *, room: int) -> bytes:
    """Value names and locations of the distinct operations, as far as there is room for them."""
    for pools in (("values", "location"), ("location",), ()):
        left_out = sum(len(pool) for name, (pool, _) in _list_pools(forms).items() if name not in pools)
        packed = PackedColumns({"left_out": left_out})
        for name in pools:
            packed.add_texts(f"forms.{name}", *_list_pools(forms)[name])
        # Texts that compress to less than a tenth are rare: what cannot fit is not even tried.
        if sum(map(len, packed.parts)) // 10 <= room and len(block := packed.compress()) <= room:
            return block
    return PackedColumns({"left_out": left_out}).compress()


def _list_pools(forms: OperationForms) -> dict[str, tuple[bytes, Int64]]:
    return {"values": (forms.ssa_pool, forms.ssa_end), "location": (forms.location_pool, forms.location_end)}


def _add_columns(packed: PackedColumns, profile: Profile) -> None:
    forms = profile.forms
    packed.add_table("forms", {"name": forms.name, "signature": forms.signature})
    banks, total, allocated, free, largest_free = profile.views.T if len(profile.views) else np.zeros((5, 0), np.int64)
    packed.add_table("views", {"banks": banks, "total": total, "allocated": allocated}, steps=True)
    # What follows from the others is nothing: free is what is not allocated, and most often in one block.
    packed.add_table("views", {"lost": total - allocated - free, "scattered": free - largest_free})
    for number, timeline in enumerate(profile.timelines):
        at = f"t{number}"
        packed.add_table(at, {"form": timeline.form, "line": timeline.line, "program": timeline.program}, steps=True)
        packed.add_integers(f"{at}.state_kind", timeline.state_kind)
        packed.add_table(at, {"operation": timeline.state_operation, "cause": timeline.state_cause}, steps=True)
        for column, memory in enumerate(MEMORIES):
            packed.add_integers(f"{at}.view.{memory}", timeline.state_view[:, column], steps=True)
        for name in _PROGRAM_COLUMNS:
            values = [int(getattr(program, name)) for program in timeline.programs]
            packed.add_integers(f"{at}.programs.{name}", values, steps=True)
        if timeline.programs_l1 is not None:
            for part in (*L1_PARTS, "measured"):
                packed.add_integers(f"{at}.l1.{part}", getattr(timeline.programs_l1, part))


def _list_type_facts(item: TensorType) -> list[Any]:
    return [getattr(item, fact) for fact in _TYPE_FACTS]


def _find_kind(life: TensorLife) -> int:
    if life.weight:
        return WEIGHT
    if life.type.dtype == "bytes" and not life.type.layout:
        return TEMPORARY
    return UPLOAD if life.producer_index is None or life.producer_name in _UPLOADS else ACTIVATION


def _find_extents(profile: Profile, timeline: Timeline, architecture: Architecture) -> dict[str, list[int]]:
    """Return the address range of each memory in a bank: [first address, end], from its size and what is above it."""
    sizes = {memory: bank_size(profile, timeline, memory)[1] for memory in MEMORIES}
    ends = {
        "DRAM": architecture.dram_bytes_per_bank - sizes["TRACE"],
        "TRACE": architecture.dram_bytes_per_bank,
        "L1": architecture.l1_bytes_per_core - sizes["L1_SMALL"],
        "L1_SMALL": architecture.l1_bytes_per_core,
    }
    return {memory: [ends[memory] - size, ends[memory]] for memory, size in sizes.items() if size}


# --- who lived when ---------------------------------------------------------------------------------------------


def _follow(profile: Profile, known: Analyses, lives: _Lives) -> Iterator[list[int]]:
    """Captures know their tensors; of a log as many runs are followed as the page can afford: [timeline, from, end]."""
    for number, timeline in enumerate(profile.timelines):
        if (buffers := timeline.buffers) is not None:
            for row, life in enumerate(lifetimes(profile, timeline, None)):
                lives.add(number, life, int(buffers.first_state[row]), int(buffers.last_state[row]))
            yield [number, 0, len(timeline.state_kind)]
    left = _MOST_FOLLOWED
    unnamed: set[int] = set()
    nested = [
        np.sort([program.run for program in timeline.programs if program.parent >= 0]) for timeline in profile.timelines
    ]
    for run in _order_runs(known):
        timeline = profile.timelines[run.timeline]
        if not timeline.programs:  # no program owns a tensor: all operations are followed as one
            if run.timeline in unnamed:
                continue
            unnamed.add(run.timeline)
            run = replace(
                run,
                first_index=timeline.first_index,
                end_index=timeline.end_index,
                first_state=0,
                end_state=len(timeline.state_kind),
            )
        count = run.end_index - run.first_index
        # To follow one run, what earlier ones left behind is looked up in the whole timeline, and made again.
        cost = count + len(timeline) // 20 + 2 * int(np.searchsorted(nested[run.timeline], run.number))
        first_one = left == _MOST_FOLLOWED and count <= _MOST_FOLLOWED_OF_A_RUN
        if timeline.buffers is not None or not (first_one or cost <= left):
            continue
        left -= cost
        _follow_run(profile, timeline, run, lives)
        yield [run.timeline, run.first_state, run.end_state]


def _order_runs(known: Analyses) -> Sequence[Run]:
    """The runs of the peaks, the last one, then the others."""
    peaks = [(peak.timeline, peak.state) for peak in known.peaks.values() if peak.peak_bytes_per_bank]

    def rank(run: Run) -> int:
        return next((number for number, peak in enumerate(peaks) if _contains_peak(run, *peak)), len(peaks))

    return sorted(known.runs, key=lambda run: (rank(run), run.timeline, -run.number if run.finished else -1))


def _contains_peak(run: Run, timeline: int, state: int) -> bool:
    return timeline == run.timeline and run.first_state <= state < run.end_state


def _follow_run(profile: Profile, timeline: Timeline, run: Run, lives: _Lives) -> None:
    places = _locate_states(timeline)
    states = slice(run.first_state, run.end_state)
    here = places[states]
    number = run.number if timeline.programs else None
    for life in lifetimes(profile, timeline, number):
        # What an operation makes is in the states after it; what was there before is in the first one too.
        side = "left" if life.producer_index is None else "right"
        first = int(np.searchsorted(here, life.first_index, side))  # type: ignore[call-overload]
        last = int(np.searchsorted(here, life.last_index + (not _is_freed(profile, timeline, life)), "right")) - 1
        if first <= last:
            lives.add(run.timeline, life, run.first_state + first, run.first_state + last)


def _is_freed(profile: Profile, timeline: Timeline, life: TensorLife) -> bool:
    """Return whether its last operation freed it; otherwise it is still there in the state after the run."""
    position = life.last_index - timeline.first_index
    if life.last_use_index != life.last_index or not 0 <= position < len(timeline):
        return False
    return profile.forms.name_of(int(timeline.form[position])) == "ttnn.deallocate"


def _locate_states(timeline: Timeline) -> Int64:
    """Return per state the operation it precedes; a submit state follows the last operation named before it."""
    operation = timeline.state_operation.astype(np.int64)
    named = np.maximum.accumulate(operation) if len(operation) else operation
    return np.where(operation >= 0, operation, np.maximum(named + 1, timeline.first_index))
