# SPDX-License-Identifier: Apache-2.0
"""What an operation's programs need in L1, measured in a forked copy of this process right after the operation ran.

No single capture tells it: a NORMAL one never lists dataflow buffers, and circular buffers only for programs that are
new; a NO_DISPATCH one lists both but allocates nothing. And the sizes are not the operation's alone: some operations
make smaller programs when L1 is full. So the operation really runs first, which leaves its programs in the cache; then
the copy gives the results back, which restores the L1 that the operation found, and asks for the same operation without
dispatch. It finds the same programs in the cache and lists what they hold. A copy, because giving back inside a
NO_DISPATCH capture loses memory for good, and because a crash then costs nothing.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .isolation import Fork, Send
from .library import Library, Pool, address_key
from .nodes import ProgramNeeds, needs_of, used_cached_programs
from .protocol import error_text

TIMEOUT_SECONDS = 60.0

REFUSED = "refused"
"""Stands for a program that clashed or did not fit."""

_BORROWS_ALL = ("MoveShardedProgramFactory",)
"""Programs that only lay buffers over tensors. Without dispatch all addresses are 0, so a move has nothing to do there
and is left out."""


class Call(NamedTuple):
    """An operation as it was called."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    results: Any
    """None when it raised."""


class Measured(NamedTuple):
    """The needs of the programs, in the order of their launches; None where one is not known."""

    needs: tuple[ProgramNeeds | None, ...]
    problem: str
    """Why something is not known, empty when all is."""


def measure(
    library: Library, call: Call, *, device: Any, launched: list[str], l1_before: Mapping[int, int], l1: Pool
) -> Measured:
    """The needs of the programs that ``launched`` names, in the L1 that the operation found (address -> bytes)."""

    def work(send: Send) -> None:
        try:
            send(_dry_run(library, call, device, l1_before, l1))
        except Exception as error:
            send({"error": f"{type(error).__name__}: {error_text(error)[:300]}"})

    fork = Fork(work)
    answer = next(iter([*fork.messages(TIMEOUT_SECONDS)]), {"error": fork.ending or "no answer"})
    if "error" in answer:
        return Measured((None,) * len(launched), str(answer["error"]))
    found = [ProgramNeeds(*row) for row in answer["needs"]]
    needs = align(launched, found)
    missing = sum(need is None for need in needs)
    problem = (
        f"{missing} of {len(launched)} programs were not seen without dispatch" if missing else str(answer["note"])
    )
    return Measured(needs, problem)


def align(launched: list[str], found: list[ProgramNeeds]) -> tuple[ProgramNeeds | None, ...]:
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


def settle_refused(measured: Measured, error: str, l1_base: int) -> Measured:
    """What a program that was refused last needs, as the library's own message says.

    Without dispatch such a program may be refused too, or be another one; the message names where its buffers would
    have ended. What was measured is kept when it says the same, because it tells scratchpads apart.
    """
    found = _REGION.search(error)
    if found is None:
        return measured
    needed = int(found[2]) - l1_base
    *earlier, last = measured.needs
    if last is None or sum(last[1:]) != needed:
        circular = found[1] == "circular"
        last = ProgramNeeds(REFUSED, needed if circular else 0, 0 if circular else needed, 0)
    return Measured((*earlier, last), "" if all(need is not None for need in earlier) else measured.problem)


def _dry_run(library: Library, call: Call, device: Any, l1_before: Mapping[int, int], l1: Pool) -> dict[str, Any]:
    graph = library.graph
    made = _not_there_before(library, call)
    for tensor in made:
        library.ttnn.deallocate(tensor)
    arguments = _revived(library, call.arguments, device)
    options = {name: _revived(library, value, device) for name, value in call.options.items()}
    same = library.blocks(device, "L1", l1.base) == dict(l1_before)
    graph.begin_graph_capture(graph.RunMode.NO_DISPATCH)
    try:
        call.function(*arguments, **options)
    finally:
        nodes = graph.end_graph_capture()
    note = "" if same else "L1 could not be brought back to what the operation found"
    if same and call.results is not None and not used_cached_programs(nodes):
        note = "another program was made without dispatch"
    return {"needs": needs_of(nodes), "note": note}


def _not_there_before(library: Library, call: Call) -> list[Any]:
    """Results with a buffer of their own: not those in place, not views of an argument, and each buffer once."""
    seen = {address_key(tensor) for tensor in library.device_tensors((call.arguments, dict(call.options)))}
    made = []
    for tensor in library.device_tensors(call.results):
        key = address_key(tensor)
        if key not in seen:
            seen.add(key)
            made.append(tensor)
    return made


def _revived(library: Library, value: Any, device: Any) -> Any:
    """Arguments that the operation consumed (a convolution frees its input), allocated anew as they were."""
    if isinstance(value, library.ttnn.Tensor):
        consumed = value.storage_type() == library.ttnn.DEVICE_STORAGE_TYPE and not value.is_allocated()
        return library.ttnn.allocate_tensor_on_device(value.spec, device) if consumed else value
    if isinstance(value, (list, tuple)):
        items = [_revived(library, item, device) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value
