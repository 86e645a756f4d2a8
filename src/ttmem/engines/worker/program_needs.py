# SPDX-License-Identifier: Apache-2.0
"""The L1 needs of an operation's programs, asked right after the operation ran, in the same process.

No single capture has them: a NORMAL one never lists dataflow buffers, and circular buffers only of new programs; a
NO_DISPATCH one lists both but allocates nothing. So the operation runs first, which leaves its programs in the cache;
then it is called again without dispatch and with cache misses forbidden. A hit lists the cached program; another
program is refused and leaves nothing behind.

Some operations make smaller programs when L1 is full; which one ran depends on whether their results were allocated
when they looked. Where that may matter (the same operation made more than one program, or the question missed) the
results are freed, the question is repeated, and so is the operation; the program gets its second results, at the
addresses of the first ones. Only a mock, which computes nothing, may do that.

A call that is described like an earlier one, and finds programs that were made once only, is not measured again.
"""

import gc
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from .graph_nodes import Node, ProgramNeeds, compute_program_keys, read_new_program_needs, read_program_needs
from .library import Library, find_address
from .protocol import format_error

_MISS = "cache misses are forbidden"
_ADDRESS = " at 0x"
"""Part of a representation that shows only an object's identity."""
REFUSED = "refused"
"""Name of a program that clashed or did not fit."""

_BORROWS_ALL = ("MoveShardedProgramFactory",)
"""Programs that only place buffers in tensors. Without dispatch all addresses are 0, so a move has nothing to do and is
left out."""
_MOVE = "MoveDeviceOperation/"
"""Has only circular buffers, which a NORMAL capture lists for new programs."""


class MeasuredCall(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    results: Any
    """None when it raised."""


class Measurement(NamedTuple):
    """The needs of the programs in the order of their launches; None where unknown."""

    needs: tuple[ProgramNeeds | None, ...]
    problem: str
    """Reason for unknown needs, empty when all are known."""
    results: Any = None
    """The results that the program gets: of the operation's first run or its second."""


_Needs = tuple[ProgramNeeds | None, ...]
_Question = tuple[tuple[str, ...], tuple[str, ...], str]
"""The programs that were launched, their keys, and the call."""


class ProgramMeter:
    """Measures the programs of a device, and remembers earlier answers."""

    def __init__(self, library: Library, device: Any, *, may_repeat: bool) -> None:
        self._library = library
        self._device = device
        self._may_repeat = may_repeat
        self._programs_made: Counter[str] = Counter()
        """Number of programs made per device operation with equally described arguments."""
        self._answers: dict[tuple[str, ...], set[_Needs]] = {}
        self._certain_answers: dict[_Question, _Needs] = {}
        """Answers about programs that were made once only."""
        self._moves: dict[str, set[ProgramNeeds]] = {}
        """Needs of moves when they were made, by key."""
        self._moves_seen: dict[tuple[str, ...], dict[str, ProgramNeeds]] = {}
        """The same for moves inside operations of several programs, for releases that name no factory."""
        self.has_moved_results = False
        """Results of a second run have other addresses than the first: the ledger has to be reconciled."""

    def forget_programs(self) -> None:
        self._programs_made.clear()

    def measure(self, nodes: list[Node], call: MeasuredCall, launched: list[str]) -> Measurement:
        """Return the needs of the ``launched`` programs; ``nodes`` are those of the run."""
        made, found = compute_program_keys(nodes), compute_program_keys(nodes, hits=True)
        self._programs_made.update(made)
        keys = (*made, *found)
        if len(launched) == len(keys) == 1 and launched[0].startswith(_MOVE):
            listed = read_program_needs(nodes) if made else []
            moves = self._moves.setdefault(keys[0], set())
            moves.update(listed)
            if len(listed or moves) == 1:
                return Measurement(tuple(listed or moves), "", call.results)
        is_sole = all(self._programs_made[key] == 1 for key in keys)
        described = describe_call(self._library, call) if is_sole and len(keys) == len(launched) else None
        question = (tuple(launched), tuple(sorted(keys)), described or "")
        if described and not made and question in self._certain_answers:
            return Measurement(self._certain_answers[question], "", call.results)
        moves_seen = self._moves_seen.setdefault(tuple(launched), {})
        moves_seen |= read_new_program_needs(nodes, _MOVE)
        answer, results = self._ask(call, launched, moves_seen), call.results
        known = self._answers.setdefault(tuple(launched), set())
        is_doubtful = answer.problem or any(self._programs_made[key] > 1 for key in keys)
        tensors = self._library.find_tensors((call.arguments, dict(call.options)))
        # A call that freed an argument cannot be repeated.
        if is_doubtful and self._may_repeat and results is not None and not any(map(self._library.is_freed, tensors)):
            own = _find_new_tensors(self._library, call)
            places = [find_address(tensor) for tensor in own]
            for tensor in own:
                self._library.ttnn.deallocate(tensor)
            without_results = self._ask(call, launched, moves_seen)
            results = call.function(*call.arguments, **call.options)
            again = [
                find_address(tensor) for tensor in _find_new_tensors(self._library, call._replace(results=results))
            ]
            self.has_moved_results = self.has_moved_results or places != again
            answer = _choose_answer(answer, without_results, known if made else set())
        if not answer.problem:
            known.add(answer.needs)
            if described and not is_doubtful:
                self._certain_answers[question] = answer.needs
        return answer._replace(results=results)

    def _ask(self, call: MeasuredCall, launched: list[str], moves_seen: Mapping[str, ProgramNeeds]) -> Measurement:
        """Repeat the call without dispatch, with memory as it is now. ``moves_seen`` are those of the run itself."""
        library, device = self._library, self._device
        nodes: list[Node] = []
        problem = ""
        cached = device.num_program_cache_entries() > 0  # a program may have switched the cache off
        with _pause_garbage_collection(), _forbid_misses(library, device if cached else None):
            library.graph.begin_graph_capture(library.graph.RunMode.NO_DISPATCH)
            try:
                arguments = _restore_inputs(library, call.arguments, device)
                options = {name: _restore_inputs(library, value, device) for name, value in call.options.items()}
                call.function(*arguments, **options)
            except Exception as error:
                missed = _MISS in str(error)
                error_text = f"{type(error).__name__}: {format_error(error)[:300]}"
                problem = "another program was made without dispatch" if missed else error_text
            finally:
                nodes = list(library.graph.end_graph_capture())
        needs = tuple(
            moves_seen.get(name) if need is None else need
            for name, need in zip(launched, align_programs(launched, read_program_needs(nodes)), strict=True)
        )
        missing = sum(need is None for need in needs)
        if missing and not problem:
            problem = f"{missing} of {len(launched)} programs were not seen without dispatch"
        return Measurement(needs, problem if missing else "")


def describe_call(library: Library, call: MeasuredCall) -> str | None:
    """Describe the call as text, without tensors (program keys describe those); None when a part cannot be
    described."""
    words: list[str] = []

    def describe(value: Any) -> bool:
        if isinstance(value, library.ttnn.Tensor):
            words.append("tensor")
        elif isinstance(value, (list, tuple)):
            words.append(f"{len(value)} of")
            return all(map(describe, value))
        elif isinstance(value, dict):
            words.append(f"names {list(value)}")
            return all(map(describe, value.values()))
        elif (name := getattr(value, "python_fully_qualified_name", None)) is not None:
            words.append(str(name))
        elif type(value).__module__.partition(".")[0] not in ("builtins", "ttnn"):
            return False
        elif _ADDRESS not in (text := repr(value)):
            words.append(text)
        else:
            words.append(type(value).__name__)
            fields = _list_fields(type(value))
            return bool(fields) and all(describe(getattr(value, name)) for name in fields)
        return True

    return " ".join(words) if describe((call.arguments, dict(call.options))) else None


def _list_fields(type_: type) -> tuple[str, ...]:
    """Return the fields of a configuration that has no text of its own; other objects are unknown."""
    if not type_.__name__.endswith("Config"):
        return ()
    return tuple(name for name in dir(type_) if not name.startswith("_") and not callable(getattr(type_, name)))


def _choose_answer(with_results: Measurement, without: Measurement, known: set[_Needs]) -> Measurement:
    """Choose the answer of the program that ran: where both are possible, the one that was not known before."""
    answers = {answer.needs: answer for answer in (with_results, without) if not answer.problem}
    if not answers:
        return with_results
    if len(answers) == 2 and len(answers.keys() - known) == 1:
        return answers[next(iter(answers.keys() - known))]
    if len(answers) == 2:
        return with_results._replace(problem="one of two programs ran, which differ in size")
    return next(iter(answers.values()))


@contextmanager
def _forbid_misses(library: Library, device: Any) -> Iterator[None]:
    """Forbid cache misses on a device (None: there is no cache), then restore the program's setting. Releases that
    cannot forbid them make the program anew."""
    if not hasattr(device, "set_program_cache_misses_allowed"):
        yield
        return
    wanted = device.id() not in library.forbids_misses
    device.set_program_cache_misses_allowed(False)
    try:
        yield
    finally:
        device.set_program_cache_misses_allowed(wanted)


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: a buffer freed without dispatch is lost for good."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def align_programs(launched: list[str], found: list[ProgramNeeds]) -> tuple[ProgramNeeds | None, ...]:
    """Match the programs that ran with those seen without dispatch: same order, some may be missing.

    A program that was refused at its launch has no name yet: it is the next one.
    """
    matched: list[ProgramNeeds | None] = []
    position = 0
    for name in launched:
        if name == REFUSED:
            matched.append(found[position] if position < len(found) else None)
            continue
        later = next((i for i in range(position, len(found)) if found[i].program == name), None)
        if later is not None:
            matched.append(found[later])
            position = later + 1
        elif name.endswith(_BORROWS_ALL):
            matched.append(ProgramNeeds(name, 0, 0, 0))
        else:
            matched.append(None)
    return tuple(matched)


_REGION = re.compile(r"allocated (circular|dataflow) buffers .*?(?:region ends at|grow to) (\d+)", re.DOTALL)


def settle_refused(measured: Measurement, error: str, l1_base: int) -> Measurement:
    """Correct the needs of a refused program with the figures of the library's message.

    Without dispatch such a program may be refused too, or be another one; the message has the end of its buffers. An
    equal measurement is kept, because it has the scratchpads apart.
    """
    found = _REGION.search(error)
    if found is None:
        return measured
    needed = int(found[2]) - l1_base
    *earlier, last = measured.needs
    if last is None or sum(last[1:]) != needed:
        circular = found[1] == "circular"
        last = ProgramNeeds(REFUSED, needed if circular else 0, 0 if circular else needed, 0)
    return measured._replace(
        needs=(*earlier, last), problem="" if all(need is not None for need in earlier) else measured.problem
    )


def _find_new_tensors(library: Library, call: MeasuredCall) -> list[Any]:
    """Return results with a buffer of their own: neither in place nor views of an argument, each buffer once."""
    seen = {find_address(tensor) for tensor in library.find_device_tensors((call.arguments, dict(call.options)))}
    made = []
    for tensor in library.find_device_tensors(call.results):
        key = find_address(tensor)
        if key not in seen:
            seen.add(key)
            made.append(tensor)
    return made


def _restore_inputs(library: Library, value: Any, device: Any) -> Any:
    """Allocate arguments again that the operation freed (a convolution frees its input)."""
    if isinstance(value, library.ttnn.Tensor):
        return library.ttnn.allocate_tensor_on_device(value.spec, device) if library.is_freed(value) else value
    if type(value) is dict:
        return {name: _restore_inputs(library, item, device) for name, item in value.items()}
    if type(value) in (list, tuple):
        items = [_restore_inputs(library, item, device) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value
