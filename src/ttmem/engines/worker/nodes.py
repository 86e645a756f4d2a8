# SPDX-License-Identifier: Apache-2.0
"""The library's graph nodes, read for memory: what an operation took, gave back and launched, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from .account import GIVE, LAUNCH, TAKE, Move

# ``start.py`` loads the room of capture nodes under a name of its own, where there is no ttmem.
if TYPE_CHECKING or __name__.startswith("ttmem."):
    from ttmem.capture_nodes import parameters, programs
else:
    from ttmem_capture_nodes import parameters, programs

Node = programs.Node
made_programs = programs.made_programs


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
    for node in nodes:
        kind, params = node["node_type"], node["params"] or {}
        if kind == "function_start":
            hidden = raised and "program_cache_hit" not in params
            functions.append(("", "" if hidden else programs.device_program(params)))
        elif kind == "function_end":
            del functions[-1:]
        elif kind == "circular_buffer_deallocate_all":
            program = programs.innermost(functions)
            if not raised or program:
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
