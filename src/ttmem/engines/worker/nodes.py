# SPDX-License-Identifier: Apache-2.0
"""The library's graph nodes, read for memory: what an operation took, gave back and launched, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .graph_nodes import parameters, programs
from .ledger import GIVE, LAUNCH, TAKE, Move

Node = programs.Node
made_programs = programs.made_programs


_HELPERS = "::"
"""In the names of functions that are no device operations: ``Tensor::to_device``."""


class ProgramNeeds(NamedTuple):
    """What one program needs in L1, on the core that needs most: bytes."""

    program: str
    circular_buffers: int
    dataflow_buffers: int
    scratchpads: int


def moves_of(nodes: Iterable[Node], *, raised: bool = False) -> list[Move]:
    """What happened, from a NORMAL capture. A program's launch is known by the clearing of the buffers before it.

    When the call ``raised``, the operation that failed names no program, and buffers are cleared once more on the way
    out: what is not a program's is no launch then.
    """
    moves: list[Move] = []
    functions: list[tuple[str, str]] = []
    executed = [-1]
    """How many moves there were when a program last ran, by function; -1: none did."""
    for node in nodes:
        kind, params = node["node_type"], node["params"] or {}
        if kind == "function_start":
            hidden = raised and "program_cache_hit" not in params
            functions.append((str(params.get("name", "")), "" if hidden else programs.device_program(params)))
            executed.append(-1)
        elif kind == "program_execution":
            executed[-1] = len(moves)
        elif kind == "function_end":
            del functions[-1:]
            # Without a cache the program ends with its operation, and its buffers are cleared once more.
            if -1 < executed[-1] < len(moves) and moves[-1].kind == LAUNCH:
                del moves[-1]
            executed = executed[:-1] or [-1]
        elif kind == "circular_buffer_deallocate_all":
            program = programs.innermost(functions)
            # A program of a device that was closed may be collected at any time, which clears its buffers too.
            is_launch = bool(program) or not (raised or not functions or _HELPERS in functions[-1][0])
            if is_launch:
                moves.append(Move(LAUNCH, program=program))
        elif kind in ("buffer_allocate", "buffer_deallocate"):
            moves.append(
                Move(
                    TAKE if kind == "buffer_allocate" else GIVE,
                    parameters.memory_of(params),
                    int(params["address"]),
                    int(params["max_size_per_bank"]),
                    int(params["size"]),
                )
            )
    return moves


def needs_of(nodes: Iterable[Node]) -> list[ProgramNeeds]:
    """What the programs of a NO_DISPATCH capture need, one after the other."""
    return [
        ProgramNeeds(program.factory, *programs.worst_core(program.buffers))
        for program in programs.programs_of(nodes)
        if program.is_announced
    ]


def new_needs_of(nodes: Iterable[Node], name: str) -> dict[str, ProgramNeeds]:
    """Of a NORMAL capture: what programs of this name need. It lists circular buffers of programs that are new, so it
    must list some; that a program has none then says that all of its buffers lie in tensors."""
    found = programs.programs_of(nodes)
    if not any(program.buffers for program in found):
        return {}
    mine = [program for program in found if program.is_announced and program.factory.startswith(name)]
    return {program.factory: ProgramNeeds(program.factory, *programs.worst_core(program.buffers)) for program in mine}
