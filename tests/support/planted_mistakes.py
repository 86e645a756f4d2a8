# SPDX-License-Identifier: Apache-2.0
"""One small program, its kernels as text, and mistakes to plant in it: each with a twin that is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

READER = """
    void kernel_main() {
        constexpr uint32_t cb_in = tt::CBIndex::c_0;
        for (uint32_t i = 0; i < 8; ++i) {
            cb_reserve_back(cb_in, 1);
            noc_async_read_tile(i, source, get_write_ptr(cb_in));
            noc_async_read_barrier();
            cb_push_back(cb_in, 1);
        }
    }
"""
COMPUTE = """
    void MAIN {
        constexpr uint32_t cb_in = tt::CBIndex::c_0;
        constexpr uint32_t cb_out = tt::CBIndex::c_16;
        for (uint32_t i = 0; i < 8; ++i) {
            cb_wait_front(cb_in, 1);
            cb_reserve_back(cb_out, 1);
            copy_tile(cb_in, 0, 0);
            pack_tile(0, cb_out);
            cb_push_back(cb_out, 1);
            cb_pop_front(cb_in, 1);
        }
    }
"""
WRITER = """
    void kernel_main() {
        constexpr uint32_t cb_out = tt::CBIndex::c_16;
        for (uint32_t i = 0; i < 8; ++i) {
            cb_wait_front(cb_out, 1);
            noc_async_write_tile(i, target, get_read_ptr(cb_out));
            noc_async_write_barrier();
            cb_pop_front(cb_out, 1);
        }
    }
"""


def host(
    *buffers: tuple[int, int], page: int = 2048, kernels: tuple[str, ...] = ("reader", "compute", "writer")
) -> str:
    """A program with these (index, pages), and these kernels on one core."""
    lines = ["int main() {", "    Program program = CreateProgram();", "    CoreCoord core = {0, 0};"]
    for index, pages in buffers:
        made = f"CircularBufferConfig({pages} * {page}, {{{{{index}, tt::DataFormat::Float16_b}}}})"
        lines.append(f"    CreateCircularBuffer(program, core, {made}.set_page_size({index}, {page}));")
    for kernel in kernels:
        config = (
            "ComputeConfig{.compile_args = {4, 0}}"
            if kernel == "compute"
            else "DataMovementConfig{.compile_args = {4, 0}}"
        )
        lines.append(f'    CreateKernel(program, "kernels/{kernel}.cpp", core, {config});')
    return "\n".join([*lines, "}", ""])


@dataclass(frozen=True)
class Planted:
    """A mistake: which rule, where it is seen, and the files with and without it."""

    rule: str
    name: str
    bad: Mapping[str, str]
    good: Mapping[str, str]
    where: tuple[str, str]
    """File and a piece of the reported line."""
    bindings: Mapping[str, int] = field(default_factory=dict)
    l1_tensor_bytes: int = 0


def program(
    host_text: str | None = None, *, reader: str = READER, compute: str = COMPUTE, writer: str = WRITER
) -> dict[str, str]:
    """All files of the program."""
    return {
        "host.cpp": host_text or host((0, 2), (16, 2)),
        "kernels/reader.cpp": reader,
        "kernels/compute.cpp": compute,
        "kernels/writer.cpp": writer,
    }


def _steps(text: str, step: int, trips: int) -> str:
    """The same kernel in larger steps."""
    return text.replace(", 1);", f", {step});").replace("i < 8", f"i < {trips}")


_RESIDENT = COMPUTE.replace(
    "            cb_pop_front(cb_in, 1);\n", "        }\n        cb_pop_front(cb_in, 8);\n"
).replace("        cb_pop_front(cb_in, 8);\n        }\n", "        cb_pop_front(cb_in, 8);\n")
_SELF = """
    void MAIN {
        constexpr uint32_t cb_in = tt::CBIndex::c_0;
        constexpr uint32_t cb_sum = tt::CBIndex::c_2;
        constexpr uint32_t cb_out = tt::CBIndex::c_16;
        cb_reserve_back(cb_sum, 1);
        cb_push_back(cb_sum, 1);
        for (uint32_t i = 0; i < 8; ++i) {
            cb_wait_front(cb_in, 1);
            cb_wait_front(cb_sum, 1);
            cb_reserve_back(cb_sum, 1);
            add_tiles(cb_in, cb_sum, 0, 0, 0);
            cb_push_back(cb_sum, 1);
            cb_pop_front(cb_sum, 1);
            cb_pop_front(cb_in, 1);
            cb_reserve_back(cb_out, 1);
            cb_push_back(cb_out, 1);
        }
        cb_wait_front(cb_sum, 1);
        cb_pop_front(cb_sum, 1);
    }
"""
_ACK_READER = """
    void kernel_main() {
        for (uint32_t i = 0; i < 8; ++i) {
            cb_wait_front(16, 1);
            cb_reserve_back(0, 1);
            cb_push_back(0, 1);
            cb_pop_front(16, 1);
        }
    }
"""
_ACK_READER_FIRST = _ACK_READER.replace(
    "            cb_wait_front(16, 1);\n            cb_reserve_back(0, 1);\n            cb_push_back(0, 1);\n",
    "            cb_reserve_back(0, 1);\n            cb_push_back(0, 1);\n            cb_wait_front(16, 1);\n",
)
_LOCKSTEP_READER = """
    void kernel_main() {
        for (uint32_t i = 0; i < 8; ++i) {
            cb_reserve_back(0, 1);
            cb_push_back(0, 1);
            cb_reserve_back(1, 1);
            cb_push_back(1, 1);
        }
    }
"""
_DRAIN_ONE_FIRST = """
    void MAIN {
        for (uint32_t i = 0; i < 8; ++i) {
            cb_wait_front(0, 1);
            cb_pop_front(0, 1);
        }
        for (uint32_t i = 0; i < 8; ++i) {
            cb_wait_front(1, 1);
            cb_reserve_back(16, 1);
            cb_push_back(16, 1);
            cb_pop_front(1, 1);
        }
    }
"""
_BLOCK_READER = """
    void kernel_main() {
        constexpr uint32_t block = get_compile_time_arg_val(0);
        constexpr uint32_t cb_in = get_compile_time_arg_val(1);
        for (uint32_t i = 0; i < 2; ++i) {
            cb_reserve_back(cb_in, block);
            cb_push_back(cb_in, block);
        }
    }
"""
_MUCH = 1_300_000

MISTAKES = (
    Planted(
        "R1",
        "a step larger than the buffer",
        program(reader=_steps(READER, 4, 2)),
        program(host((0, 4), (16, 2)), reader=_steps(READER, 4, 2)),
        ("kernels/reader.cpp", "cb_reserve_back(cb_in, 4)"),
    ),
    Planted(
        "R1",
        "a step that the host passes as an argument",
        program(host((0, 3), (16, 2)), reader=_BLOCK_READER),
        program(host((0, 4), (16, 2)), reader=_BLOCK_READER),
        ("kernels/reader.cpp", "cb_reserve_back(cb_in, block)"),
    ),
    Planted(
        "R2",
        "a capacity that is no multiple of the step",
        program(host((0, 5), (16, 2)), reader=_steps(READER, 2, 4)),
        program(host((0, 4), (16, 2)), reader=_steps(READER, 2, 4)),
        ("kernels/reader.cpp", "cb_push_back(cb_in, 2)"),
    ),
    Planted(
        "R3",
        "waiting for one page and popping all",
        program(host((0, 8), (16, 2)), compute=_RESIDENT),
        program(
            host((0, 8), (16, 2)), compute=_RESIDENT.replace("cb_wait_front(cb_in, 1)", "cb_wait_front(cb_in, i + 1)")
        ),
        ("kernels/compute.cpp", "cb_pop_front(cb_in, 8)"),
    ),
    Planted(
        "R4",
        "a consumer that wants more than is pushed",
        program(writer=WRITER.replace("i < 8", "i < 9")),
        program(),
        ("kernels/writer.cpp", "cb_pop_front(cb_out, 1)"),
    ),
    Planted(
        "R4",
        "steps that never meet",
        program(
            host((0, 4), (16, 2)),
            reader=_steps(READER, 3, 8),
            compute=COMPUTE.replace("cb_in, 1)", "cb_in, 4)").replace("i < 8", "i < 6"),
            writer=WRITER.replace("i < 8", "i < 6"),
        ),
        program(
            host((0, 12), (16, 2)),
            reader=_steps(READER, 3, 8),
            compute=COMPUTE.replace("cb_in, 1)", "cb_in, 4)").replace("i < 8", "i < 6"),
            writer=WRITER.replace("i < 8", "i < 6"),
        ),
        ("kernels/compute.cpp", "cb_wait_front(cb_in, 4)"),
    ),
    Planted(
        "R5",
        "a running sum without room for the next one",
        program(host((0, 2), (2, 1), (16, 2)), compute=_SELF),
        program(host((0, 2), (2, 2), (16, 2)), compute=_SELF),
        ("kernels/compute.cpp", "cb_reserve_back(cb_sum, 1)"),
    ),
    Planted(
        "R6",
        "two consumers of one buffer",
        program(writer=WRITER.replace("c_16", "c_0")),
        program(),
        ("kernels/writer.cpp", "cb_pop_front(cb_out, 1)"),
    ),
    Planted(
        "R7",
        "a page that is reserved and never pushed",
        program(compute=COMPUTE.replace("            cb_push_back(cb_out, 1);\n", "")),
        program(),
        ("kernels/compute.cpp", "cb_reserve_back(cb_out, 1)"),
    ),
    Planted(
        "R7",
        "a page that is waited for and never popped",
        program(compute=COMPUTE.replace("            cb_pop_front(cb_in, 1);\n", "")),
        program(),
        ("kernels/compute.cpp", "cb_wait_front(cb_in, 1)"),
    ),
    Planted(
        "R7",
        "a page that is pushed without being reserved",
        program(reader=READER.replace("            cb_reserve_back(cb_in, 1);\n", "")),
        program(),
        ("kernels/reader.cpp", "cb_push_back(cb_in, 1)"),
    ),
    Planted(
        "R8",
        "a reader that waits for the answer before it sends",
        {
            **program(reader=_ACK_READER),
            "host.cpp": host((0, 2), (16, 2), kernels=("reader", "compute")),
            "kernels/writer.cpp": "\n",
        },
        {
            **program(reader=_ACK_READER_FIRST),
            "host.cpp": host((0, 2), (16, 2), kernels=("reader", "compute")),
            "kernels/writer.cpp": "\n",
        },
        ("kernels/reader.cpp", "cb_push_back(0, 1)"),
    ),
    Planted(
        "R9",
        "one of two buffers is drained first",
        program(host((0, 2), (1, 2), (16, 2)), reader=_LOCKSTEP_READER, compute=_DRAIN_ONE_FIRST),
        program(host((0, 2), (1, 8), (16, 2)), reader=_LOCKSTEP_READER, compute=_DRAIN_ONE_FIRST),
        ("kernels/reader.cpp", "cb_reserve_back(1, 1)"),
    ),
    Planted(
        "R10",
        "a total that is no multiple of the page",
        program(host((0, 2), (16, 2)).replace("2 * 2048, {{16", "3000, {{16")),
        program(),
        ("host.cpp", "CircularBufferConfig(3000"),
    ),
    Planted(
        "R10",
        "pages of another format's tile",
        program(host((0, 2), (16, 2)).replace("2048", "tt::tile_size(tt::DataFormat::Float32)")),
        program(host((0, 2), (16, 2)).replace("2048", "tt::tile_size(tt::DataFormat::Float16_b)")),
        ("host.cpp", "CircularBufferConfig(2 * tt"),
    ),
    Planted(
        "R10",
        "an index that is taken",
        program(host((0, 2), (16, 2), (0, 4))),
        program(host((0, 2), (16, 2), (1, 4)).replace("{{1,", "{{3,").replace("size(1,", "size(3,")),
        ("host.cpp", "4 * 2048"),
    ),
    Planted(
        "R10",
        "an index that the chip does not have",
        program(host((0, 2), (16, 2), (40, 1))),
        program(host((0, 2), (16, 2), (31, 1))),
        ("host.cpp", "{{40"),
    ),
    Planted(
        "R11",
        "more pages than counters hold",
        program(host((0, 70000), (16, 2), page=16)),
        program(host((0, 60000), (16, 2), page=16)),
        ("host.cpp", "70000 * 16"),
    ),
    Planted(
        "R12",
        "a push before the barrier",
        program(
            reader=READER.replace(
                "            noc_async_read_barrier();\n            cb_push_back(cb_in, 1);\n",
                "            cb_push_back(cb_in, 1);\n            noc_async_read_barrier();\n",
            )
        ),
        program(),
        ("kernels/reader.cpp", "cb_push_back(cb_in, 1)"),
    ),
    Planted(
        "R12",
        "a pop while the page is still being written",
        program(writer=WRITER.replace("            noc_async_write_barrier();\n", "")),
        program(writer=WRITER.replace("noc_async_write_barrier", "noc_async_writes_flushed")),
        ("kernels/writer.cpp", "cb_pop_front(cb_out, 1)"),
    ),
    Planted(
        "R13",
        "buffers beyond L1",
        program(host((0, 700), (16, 2))),
        program(host((0, 600), (16, 2))),
        ("host.cpp", "700 * 2048"),
    ),
    Planted(
        "R13",
        "buffers that meet the tensors",
        program(host((0, 60), (16, 2))),
        program(host((0, 40), (16, 2))),
        ("host.cpp", "60 * 2048"),
        l1_tensor_bytes=_MUCH,
    ),
)
