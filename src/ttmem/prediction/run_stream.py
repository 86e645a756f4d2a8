# SPDX-License-Identifier: Apache-2.0
"""Plays a stream on an engine: what comes of it is a Profile like that of a run, of kind ``predicted``."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ttmem.analysis.failure import failure
from ttmem.analysis.peaks import Peak, peaks
from ttmem.base import toml
from ttmem.base.errors import MissingPartError, TtmemError
from ttmem.base.formatting import megabytes
from ttmem.engines.engine import MOCK, TWIN, Engine, EngineSettings, Entry, open_engine
from ttmem.engines.interpreters import find_interpreter
from ttmem.hardware import BOARDS, OpenSettings, open_board
from ttmem.prediction.request import AUTO, OperationCounts, Prediction, Request
from ttmem.prediction.stream import CACHE, CONSTANT, INPUT, RESERVE, WEIGHT, ModelCall, Resident, Stream
from ttmem.profile.builder import Capture
from ttmem.profile.device_history import Resident as Loaded
from ttmem.profile.model import MEMORIES, Profile
from ttmem.twin.placement import place
from ttmem.twin.replay import spec_from_step

KIND = "predicted"
_STEP_SECONDS = 600.0
"""The library works out tables of large reshapes on the host: minutes for thousands of sequences."""

_MOST_DOUBTS = 10
_RESULTS_ALONE = (
    "of {} operation{} only the results are counted, not what they need while they run: no call on the device is "
    "known, or the library refuses it (operations.unsupported names them)"
)


@contextmanager
def opened(request: Request) -> Iterator[Engine]:
    """The engine that the request asks for. Searches play many streams on one: each finds an empty board."""
    with open_engine(engine_name(request), settings_of(request)) as engine:
        yield engine


@contextmanager
def starting(request: Request) -> Iterator[tuple[Engine, Callable[[], None]]]:
    """The same, started while the model is traced; the second is to be called before the engine is used."""
    engine = open_engine(engine_name(request), settings_of(request))
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(engine.__enter__)

        def ready() -> None:
            started.result()

        try:
            yield engine, ready
        finally:
            with suppress(TtmemError):
                started.result()
            engine.close()


def settings_of(request: Request) -> EngineSettings:
    """How the request's board is opened."""
    return EngineSettings(
        board=request.board,
        python=request.python,
        l1_small_bytes=request.l1_small_bytes,
        trace_region_bytes=request.trace_region_bytes,
    )


def engine_name(request: Request) -> str:
    """``auto`` is the real library where it can open the board, else the twin."""
    if request.engine != AUTO:
        return request.engine
    if BOARDS.find(request.board).mock is None:
        return TWIN
    try:
        find_interpreter(request.python)
    except MissingPartError:
        if request.python:
            raise
        return TWIN
    return MOCK


def play(stream: Stream, request: Request, engine: Engine | None = None) -> Prediction:
    """What the stream comes to on the request's board; a crash or a hang of the library is the prediction's failure."""
    if engine is None:
        with opened(request) as own:
            return play(stream, request, own)
    name = engine_name(request)
    script = list(script_of(stream))
    heard = _Heard([entry["is_bound"] for entry in script if "name" in entry])
    for message in engine.play(script, timeout=_STEP_SECONDS):
        heard.hear(message)
    profile = heard.capture.profile(
        name=stream.name,
        script=request.target,
        engine=name,
        board=request.board,
        kind=KIND,
        facts={key: value for key, value in stream.facts.items() if value is not None},
    )
    return _prediction(stream, request, name, profile, heard)


@dataclass(slots=True)
class _Heard:
    """What was said while a stream was played."""

    bounds: list[bool]
    """Of each operation: whether it stands for one that the device has no call for."""
    capture: Capture = field(default_factory=Capture)
    confidences: Counter[str] = field(default_factory=Counter)
    doubts: Counter[str] = field(default_factory=Counter)
    doubted_at: dict[str, str] = field(default_factory=dict)
    """Where in the model each doubt came up first."""
    refused: list[dict[str, Any]] = field(default_factory=list)
    last_started: dict[str, Any] = field(default_factory=dict)

    def hear(self, message: dict[str, Any]) -> None:
        self.capture.feed(message)
        if "start" in message:
            self.last_started = {"name": message["name"], "place": message["file"]}
        if "end" in message:
            index = message["end"]
            is_bound = index < len(self.bounds) and self.bounds[index]  # an upload that fails comes after them
            if "refused" in message:
                is_bound = True
                self.refused.append(self.last_started | {"why": message["refused"]})
            self.confidences["unknown" if is_bound else message.get("confidence", "exact")] += 1
            if message.get("doubt"):
                self._doubt(message["doubt"])
        if "bounded" in message:  # of the operation that has just ended
            self.confidences["exact"] -= 1
            self.confidences["bounded"] += 1
            self._doubt(message["bounded"])
        if "played" in message:
            late = _STEP_SECONDS if message["timed_out"] else None
            self.capture.process_ended(signal_number=message["signal"] or None, timeout_seconds=late)

    def _doubt(self, text: str) -> None:
        self.doubts[text] += 1
        self.doubted_at.setdefault(text, self.last_started.get("place", ""))

    def told_doubts(self) -> Iterator[str]:
        """What the figures leave out, the gravest first; then why figures of single operations are bounds."""
        if unknown := self.confidences["unknown"]:
            yield _RESULTS_ALONE.format(unknown, "s" * (unknown > 1))
        for text, count in self.doubts.most_common(_MOST_DOUBTS):
            places = f", first in {self.doubted_at[text]}" if self.doubted_at[text] else ""
            yield f"{text} ({count} operation{'s' * (count > 1)}{places})"


def script_of(stream: Stream) -> Iterator[Entry]:
    """The entries of ``engines.worker.playing``: what is there first, a moment to look, then the operations."""
    for resident in stream.residents:
        yield from _loaded(resident)
    yield {"moment": True}
    for call in stream.calls:
        yield from _called(call)
        if call.keeps:
            yield {"moment": True}


def _loaded(resident: Resident) -> Iterator[Entry]:
    """What it is is said of the step that brings it to the device: the last one."""
    *earlier, last = (resident.step, *resident.preparation)
    known = {"path": resident.name, "role": resident.role}
    for step in (*earlier, last):
        entry: dict[str, Any] = {"step": dict(step)}
        if "call" in step:
            entry |= {"name": step["call"], "place": resident.name, "label": resident.name, "is_bound": False}
        if step is last and "host" not in step:
            entry |= known
        yield entry


def _called(call: ModelCall) -> Iterator[Entry]:
    for number, step in enumerate(call.steps):
        if "free" in step:
            yield {"step": {**step, "force": False}}  # a view of it keeps the buffer
            continue
        entry: dict[str, Any] = {"step": dict(step), "place": call.module}
        for kept in call.keeps:
            if kept.tensor == step.get("alloc", step.get("out")):
                entry |= {"path": kept.name, "role": kept.role}
        if "host" not in step:
            # A compiled module has names of its own (slice_static): a log of the same graph has them too.
            is_only_one = not call.operator and sum("call" in one for one in call.steps) == 1
            entry["name"] = call.name if is_only_one else step.get("call", call.name)
            entry |= {"label": _label(call, entry["name"]), "is_bound": bool(call.unsupported)}
            if call.otherwise and "call" in step:
                entry |= {"otherwise": list(call.otherwise), "skips": len(call.steps) - number - 1}
        yield entry
    for name in call.frees:
        yield {"step": {"free": name, "force": False}}


def _label(call: ModelCall, name: str) -> str:
    """What a result is called: where in the model it was made, and by what."""
    short = name.rpartition(".")[2]
    return f"{call.module}:{short}" if call.module else short


def _prediction(stream: Stream, request: Request, engine: str, profile: Profile, heard: _Heard) -> Prediction:
    sizes = _resident_bytes(stream, request, heard.capture.residents)
    fullest = peaks(profile).get("DRAM")
    staying = (WEIGHT, CACHE, CONSTANT, RESERVE)
    held = sum(one.bytes_per_bank for one in sizes if one.role in staying and MEMORIES[one.memory] == "DRAM")
    activations = (fullest.peak_bytes_per_bank - held) * fullest.banks if fullest else 0
    banks = fullest.banks if fullest else 1

    def kept(*roles: str) -> int:
        """Over all banks, padding included, so that the parts and the activations sum to the peak."""
        return sum(one.bytes_per_bank * banks for one in sizes if one.role in roles)

    failed = failure(profile)
    unsupported = tuple(
        f"{call.operator or call.name} ({call.module}): {call.unsupported}" for call in stream.unsupported
    )
    unsupported += tuple(f"{one['name']} ({one['place']}): refused: {_short(one['why'])}" for one in heard.refused)
    counts = heard.confidences
    interval = None if stream.is_placed or fullest is None else _interval(fullest, held)
    return Prediction(
        request=request,
        profile=profile,
        fits=failed is None,
        engine=engine,
        chips=int(stream.facts.get("chips") or 1),
        weights_bytes=kept(WEIGHT),
        kv_cache_bytes=kept(CACHE),
        constants_bytes=kept(CONSTANT),
        reserve_bytes=kept(RESERVE),
        activations_peak_bytes=max(activations, 0),
        operations=OperationCounts(
            exact=counts["exact"],
            bounded=counts["bounded"],
            unknown=counts["unknown"],
            unsupported=unsupported,
        ),
        assumed=(*stream.assumed, *([] if interval is None else [_of_ports(stream)]), *heard.told_doubts()),
        error_bound_percent=stream.error_bound_percent,
        interval_bytes=interval,
        as_loaded_bytes=0 if interval is None else stream.as_loaded_bytes,
    )


def _interval(fullest: Peak, held_bytes_per_bank: int) -> tuple[int, int]:
    """From a port that keeps its activations in L1 to one that keeps all in DRAM, with the error that was measured."""
    low = int(held_bytes_per_bank * fullest.banks / (1 + _measured()["lower_end_excess_percent"] / 100))
    return low, max(low, fullest.peak_bytes_per_bank * fullest.banks)


def _of_ports(stream: Stream) -> str:
    """How well such an interval was met by measured ports."""
    ports = _measured()
    others = ports["ports"] - ports["within"]
    checked = (
        f"Checked against {ports['ports']} tt-metal ports: {ports['within']} peaked inside this interval. The other "
        f"{others} also kept unprepared weights or unfolded norms on the device "
        f"(up to {ports['most_times']:g}x the upper end)"
    )
    if not stream.as_loaded_bytes:
        return f"{checked}."
    more, fit = megabytes(stream.as_loaded_bytes, decimals=1), ports["as_loaded"]
    return f"{checked}; for this model that adds {more}, and then {'all ' if fit == ports['ports'] else ''}{fit} fit."


def _measured() -> dict[str, Any]:
    found: dict[str, Any] = toml.load_packaged("ttmem.prediction", "measured.toml")["interval"]
    return found


def _short(text: str) -> str:
    """The first sentence of what the library says."""
    return " ".join(text.split())[:160]


def _resident_bytes(stream: Stream, request: Request, seen: Mapping[str, Loaded]) -> list[Loaded]:
    """Role, memory, bytes per bank and in all of what stays; what no longer fitted by what it would take."""
    found = []
    memory_map = open_board(request.board, OpenSettings(request.l1_small_bytes, request.trace_region_bytes))
    for resident in stream.residents:
        if resident.name in seen:
            found.append(seen[resident.name])
        elif "alloc" in resident.step and resident.role != INPUT:
            spec = spec_from_step({key: value for key, value in resident.step.items() if key != "fill"})
            placed = place(spec, memory_map)
            memory = MEMORIES.index(spec.memory.name)
            found.append(Loaded(resident.role, memory, placed.taken_bytes_per_bank, placed.total_bytes))
    kept = {one.name for call in stream.calls for one in call.keeps}
    return [*found, *(one for path, one in seen.items() if path in kept)]
