# SPDX-License-Identifier: Apache-2.0
"""Play a stream on an engine, and build a prediction with a Profile of kind ``predicted``."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ttmem.analysis.failure import failure, memory_failure
from ttmem.analysis.peaks import Peak, peaks
from ttmem.base import toml
from ttmem.base.errors import BadInputError, MissingPartError, TtmemError
from ttmem.base.formatting import format_mib
from ttmem.engines.engine import MOCK, TWIN, Engine, EngineSettings, ScriptEntry, open_engine
from ttmem.engines.interpreters import find_interpreter
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.hardware import BOARDS, OpenSettings, open_board
from ttmem.prediction.request import AUTO, OperationCounts, Prediction, Request
from ttmem.prediction.stream import CACHE, CONSTANT, INPUT, RESERVE, WEIGHT, ModelCall, Resident, Stream
from ttmem.profile.builder import ProfileBuilder
from ttmem.profile.device_history import PlayedResident as Loaded
from ttmem.profile.model import MEMORIES, Profile
from ttmem.twin.placement import place
from ttmem.twin.replay import read_spec

KIND = "predicted"
_STEP_SECONDS = 600.0
"""The library computes tables of large reshapes on the host: minutes for thousands of sequences."""

_MOST_DOUBTS = 10
_RESULTS_ALONE = (
    "of {} operation{} only the results are counted, not what they need while they run: no call on the device is "
    "known, or the library refuses it (operations.unsupported names them)"
)


def open_for_request(request: Request) -> Engine:
    """Open the requested engine. Searches play many streams on one: each starts with an empty board."""
    return open_engine(choose_engine(request), engine_settings(request))


@contextmanager
def start_engine(request: Request) -> Iterator[tuple[Engine, Callable[[], None]]]:
    """Start the engine while the model is traced; call the second value before using the engine."""
    engine = open_for_request(request)
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


def engine_settings(request: Request) -> EngineSettings:
    return EngineSettings(
        board=request.board,
        python=request.python,
        l1_small_bytes=request.l1_small_bytes,
        trace_region_bytes=request.trace_region_bytes,
    )


def choose_engine(request: Request) -> str:
    """Return the engine's name; ``auto`` is the real library if it can open the board, else the twin."""
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


def predict_stream(stream: Stream, request: Request, engine: Engine | None = None) -> Prediction:
    """Play a stream on the request's board; a crash or a hang of the library is the prediction's failure."""
    if engine is None:
        with open_for_request(request) as own:
            return predict_stream(stream, request, own)
    name = choose_engine(request)
    script = list(list_entries(stream))
    heard = PlaybackResult([entry["is_bound"] for entry in script if "name" in entry])
    for message in engine.play(script, timeout=_STEP_SECONDS):
        heard.add_message(message)
    profile = heard.capture.build(
        name=stream.name,
        script=request.target,
        engine=name,
        board=request.board,
        kind=KIND,
        facts={key: value for key, value in stream.facts.items() if value is not None},
    )
    return _build_prediction(stream, request, name, profile, heard)


@dataclass(slots=True)
class PlaybackResult:
    """The messages while a stream was played."""

    bounds: list[bool]
    """Operation -> whether it replaces one without a call on the device."""
    capture: ProfileBuilder = field(default_factory=ProfileBuilder)
    confidences: Counter[str] = field(default_factory=Counter)
    doubts: Counter[str] = field(default_factory=Counter)
    doubted_at: dict[str, str] = field(default_factory=dict)
    """Doubt -> the first place in the model."""
    refused: list[dict[str, Any]] = field(default_factory=list)
    last_started: dict[str, Any] = field(default_factory=dict)

    def add_message(self, message: dict[str, Any]) -> None:
        self.capture.add(message)
        if "start" in message:
            self.last_started = {"name": message["name"], "place": message["file"]}
        if "end" in message:
            index = message["end"]
            is_bound = index < len(self.bounds) and self.bounds[index]  # a failed upload comes after them
            if "refused" in message:
                is_bound = True
                self.refused.append(self.last_started | {"why": message["refused"]})
            self.confidences["unknown" if is_bound else message.get("confidence", "exact")] += 1
            if message.get("doubt"):
                self._add_doubt(message["doubt"])
        if "bounded" in message:  # about the operation that has just ended
            self.confidences["exact"] -= 1
            self.confidences["bounded"] += 1
            self._add_doubt(message["bounded"])
        if "played" in message:
            late = _STEP_SECONDS if message["timed_out"] else None
            self.capture.end_process(signal_number=message["signal"] or None, timeout_seconds=late)

    def _add_doubt(self, text: str) -> None:
        self.doubts[text] += 1
        self.doubted_at.setdefault(text, self.last_started.get("place", ""))

    def list_caveats(self) -> Iterator[str]:
        """Yield what the figures leave out, then why figures of single operations are bounds."""
        if unknown := self.confidences["unknown"]:
            yield _RESULTS_ALONE.format(unknown, "s" * (unknown > 1))
        for text, count in self.doubts.most_common(_MOST_DOUBTS):
            places = f", first in {self.doubted_at[text]}" if self.doubted_at[text] else ""
            yield f"{text} ({count} operation{'s' * (count > 1)}{places})"


def list_entries(stream: Stream) -> Iterator[ScriptEntry]:
    """Yield the entries for ``engines.worker.player``: residents, a snapshot, then the operations."""
    for resident in stream.residents:
        yield from _list_resident_entries(resident)
    yield {"moment": True}
    for call in stream.calls:
        yield from _list_call_entries(call)
        if call.keeps:
            yield {"moment": True}


def _list_resident_entries(resident: Resident) -> Iterator[ScriptEntry]:
    """Yield the entries of a resident; the last step, which uploads it, has its name and role."""
    *earlier, last = (resident.step, *resident.preparation)
    known = {"path": resident.name, "role": resident.role}
    for step in (*earlier, last):
        entry: dict[str, Any] = {"step": dict(step)}
        if "call" in step:
            entry |= {"name": step["call"], "place": resident.name, "label": resident.name, "is_bound": False}
        if step is last and "host" not in step:
            entry |= known
        yield entry


def _list_call_entries(call: ModelCall) -> Iterator[ScriptEntry]:
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
            entry |= {"label": _result_label(call, entry["name"]), "is_bound": bool(call.unsupported)}
            if call.otherwise and "call" in step:
                entry |= {"otherwise": list(call.otherwise), "skips": len(call.steps) - number - 1}
        yield entry
    for name in call.frees:
        yield {"step": {"free": name, "force": False}}


def _result_label(call: ModelCall, name: str) -> str:
    short = name.rpartition(".")[2]
    return f"{call.module}:{short}" if call.module else short


def _build_prediction(
    stream: Stream, request: Request, engine: str, profile: Profile, heard: PlaybackResult
) -> Prediction:
    sizes = _measure_residents(stream, request, heard.capture.residents)
    fullest = peaks(profile).get("DRAM")
    staying = (WEIGHT, CACHE, CONSTANT, RESERVE)
    held = sum(one.bytes_per_bank for one in sizes if one.role in staying and MEMORIES[one.memory] == "DRAM")
    activations = (fullest.peak_bytes_per_bank - held) * fullest.banks if fullest else 0
    banks = fullest.banks if fullest else 1

    def sum_roles(*roles: str) -> int:
        """Sum over all banks, padding included, so that the parts and the activations add up to the peak."""
        return sum(one.bytes_per_bank * banks for one in sizes if one.role in roles)

    failed = failure(profile)
    unsupported = tuple(
        f"{call.operator or call.name} ({call.module}): {call.unsupported}" for call in stream.unsupported
    )
    unsupported += tuple(f"{one['name']} ({one['place']}): refused: {_shorten(one['why'])}" for one in heard.refused)
    counts = heard.confidences
    interval = None if stream.is_placed or fullest is None else _port_interval(fullest, held)
    return Prediction(
        request=request,
        profile=profile,
        fits=failed is None,
        engine=engine,
        chips=int(stream.facts.get("chips") or 1),
        weights_bytes=sum_roles(WEIGHT),
        kv_cache_bytes=sum_roles(CACHE),
        constants_bytes=sum_roles(CONSTANT),
        reserve_bytes=sum_roles(RESERVE),
        activations_peak_bytes=max(activations, 0),
        operations=OperationCounts(
            exact=counts["exact"],
            bounded=counts["bounded"],
            unknown=counts["unknown"],
            unsupported=unsupported,
        ),
        assumed=(*stream.assumed, *([] if interval is None else [_describe_port_check(stream)]), *heard.list_caveats()),
        error_bound_percent=stream.error_bound_percent,
        interval_bytes=interval,
        as_loaded_bytes=0 if interval is None else stream.as_loaded_bytes,
    )


def _port_interval(fullest: Peak, held_bytes_per_bank: int) -> tuple[int, int]:
    """Return the range from a port with activations in L1 to one with all in DRAM, with the measured error."""
    low = int(held_bytes_per_bank * fullest.banks / (1 + _load_port_measurements()["lower_end_excess_percent"] / 100))
    return low, max(low, fullest.peak_bytes_per_bank * fullest.banks)


def _describe_port_check(stream: Stream) -> str:
    """Describe how many measured ports peaked inside such an interval."""
    ports = _load_port_measurements()
    others = ports["ports"] - ports["within"]
    checked = (
        f"Checked against {ports['ports']} tt-metal ports: {ports['within']} peaked inside this interval. The other "
        f"{others} also kept unprepared weights or unfolded norms on the device "
        f"(up to {ports['most_times']:g}x the upper end)"
    )
    if not stream.as_loaded_bytes:
        return f"{checked}."
    more, fit = format_mib(stream.as_loaded_bytes, decimals=1), ports["as_loaded"]
    return f"{checked}; for this model that adds {more}, and then {'all ' if fit == ports['ports'] else ''}{fit} fit."


def _load_port_measurements() -> dict[str, Any]:
    found: dict[str, Any] = toml.load_packaged("ttmem.prediction", "measured.toml")["interval"]
    return found


def _shorten(text: str) -> str:
    return " ".join(text.split())[:160]


def _measure_residents(stream: Stream, request: Request, seen: Mapping[str, Loaded]) -> list[Loaded]:
    """Measure what stays on the device; a tensor that no longer fitted counts with its planned size."""
    found = []
    memory_map = open_board(request.board, OpenSettings(request.l1_small_bytes, request.trace_region_bytes))
    for resident in stream.residents:
        if resident.name in seen:
            found.append(seen[resident.name])
        elif "alloc" in resident.step and resident.role != INPUT:
            spec = read_spec({key: value for key, value in resident.step.items() if key != "fill"})
            placed = place(spec, memory_map)
            memory = MEMORIES.index(spec.memory.name)
            found.append(Loaded(resident.role, memory, placed.taken_bytes_per_bank, placed.total_bytes))
    kept = {one.name for call in stream.calls for one in call.keeps}
    return [*found, *(one for path, one in seen.items() if path in kept)]


_SAYS = "none: the target is a ttnn script and was run on a mock board"


def predict_script(request: Request) -> Prediction:
    """Run a ttnn script on the mock; return its run as a prediction."""
    if request.engine == TWIN:
        raise BadInputError("a script runs on the real library", where=request.target, hint="leave --engine out")
    settings = RunSettings(board=request.board, python=request.python)
    run = run_script(request.target, settings=settings, output=2)
    profile = run.profile
    ended = failure(profile)
    if ended is not None and not any(len(timeline.state_kind) for timeline in profile.timelines):
        shown = f"ttmem run {request.target} shows it; a model of torch is FILE.py::load_model"
        hint = f"it used no device; {run.remedy.replace(' ttmem run ', ' ttmem fit ') or shown}"
        raise BadInputError(f"the script ends for another reason than memory: {ended.message[:200]}",
                            where=request.target, hint=hint)  # fmt: skip
    dram, arguments = peaks(profile).get("DRAM"), [one for one in profile.arguments if one.on_device]
    weights_bytes = sum(one.device_bytes or 0 for one in arguments if one.kind == "parameter")
    cache_bytes = sum(one.device_bytes or 0 for one in arguments if one.kv_cache)
    most = dram.peak_bytes_per_bank * dram.banks if dram else 0
    return Prediction(
        request=request,
        profile=profile,
        fits=memory_failure(profile) is None,
        engine=MOCK,
        chips=int(profile.facts.get("chips") or 1),
        weights_bytes=weights_bytes,
        kv_cache_bytes=cache_bytes,
        activations_peak_bytes=max(most - weights_bytes - cache_bytes, 0),
        operations=OperationCounts(exact=sum(map(len, profile.timelines))),
        assumed=(_SAYS,),
        error_bound_percent=0.0,
    )
