# SPDX-License-Identifier: Apache-2.0
"""R13: buffers that end above the top of L1, or above the lowest tensor."""

from ttmem.circular_buffers.scan.host.programs import ProgramTotals
from ttmem.circular_buffers.scan.model import DATAFLOW_SPEC, ERROR, WARNING
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, L1Space, Rule
from ttmem.twin.errors import BufferClashError, BufferOverflowError
from ttmem.twin.programs import CIRCULAR, DATAFLOW, Region, check_regions


def _fits(program: ProgramTotals, space: L1Space) -> Breaches:
    memory_map, end = space.memory_map, program.end_address
    if memory_map is None or end is None:
        return
    family = DATAFLOW if program.buffers[0].declaration.api == DATAFLOW_SPEC else CIRCULAR
    lowest = memory_map.l1.end_address - space.tensor_bytes if space.tensor_bytes else None
    try:
        check_regions([Region(None, end)], family, memory_map, lowest)
        return
    except BufferOverflowError:
        text = (
            f"grow to {end} B, beyond the L1 of {memory_map.board_name} ({memory_map.architecture.l1_bytes_per_core} B)"
        )
    except BufferClashError:
        text = f"end at {end} B, above the lowest L1 tensor at {lowest} B ({space.tensor_bytes} B of tensors per bank)"
    text += "" if program.ranges_are_known else ", if its core ranges share a core"
    text += f", {program.unknown} buffers of unknown size not counted" if program.unknown else ""
    severity = ERROR if program.ranges_are_known else WARNING
    yield Breach(program.file, program.line, f"buffers of program {program.name} {text}", severity)


RULE = Rule(
    "R13",
    "The buffers end below the top of L1 and below the lowest tensor",
    "the launch fails: buffers grow beyond L1, or clash with L1 tensors",
    "make buffers shallower, move tensors to DRAM, or spread the work over more cores",
    warning_when="if it rests on shared cores",
    program=_fits,
)
