# SPDX-License-Identifier: Apache-2.0
"""Small profiles that the report tests share."""

from __future__ import annotations

from dataclasses import replace

from support.build_profile import MIB, ProfileBuilder, tensor
from ttmem.profile.model import Profile

OOM = (
    "Out of Memory: Not enough space to allocate 4194304 B DRAM buffer across 12 banks, where each bank needs to store "
    "349184 B, but bank size is 1048576 B (allocated: 900000 B, free: 148576 B, largest free block: 100000 B)"
)
HOSTILE = 'x</script><script>alert(1)</script>|"a\\b`\n# Head, \r\x1b[31m=1+1\u202e%0A::error::'
"""What a name in a log may hold, by accident or on purpose."""


def two_layers(*, runs: int = 3, leak_bytes: int = 0, failed: bool = False) -> Profile:
    """A weight folded in the first run, two operations per run; the second has the peak. Banks of 100 MiB."""
    weight, wide, narrow = tensor(1024, 1024), tensor(30, 2048), tensor(32, 32, memory="L1", shard_bytes=4096)
    host = replace(weight, memory="HOST")
    build = ProfileBuilder("two-layers", totals={"DRAM": 100 * MIB}, error_bytes=525, facts={"grid": "8x8"})
    build.argument("tokens", 1, 32, kind="input", dtype="int32")
    build.argument("layers.0.weight", 1024, 1024, on_device=False)
    build.argument("rope.table", 32, 32, kind="constant", on_device=True)
    resident = 200_000
    for number in range(runs):
        start = resident + leak_bytes * number + (176_128 if number else 0)
        with build.program("main", finished=not (failed and number == runs - 1)):
            build.operation(
                "ttcore.load_cached",
                results={"%0": weight},
                operands={"%arg1": host},
                callee="main_const_eval_0",
                dram=start,
                l1=0,
                l1_small=0,
                trace=0,
            )
            build.lookup("main_const_eval_0", hit=number > 0, key="abc")
            loaded = start
            if number == 0:
                with build.program("main_const_eval_0"):
                    build.operation(
                        "ttnn.to_device",
                        results={"%0": weight},
                        operands={"%arg0": host},
                        location="w.1",
                        dram=start,
                        l1=0,
                    )
                loaded = start + 176_128
            build.operation(
                "ttnn.matmul",
                results={"%1": wide},
                operands={"%0": weight},
                location="layers.0.dot.2",
                dram=loaded,
                l1=0,
            )
            if failed and number == runs - 1:
                build.fail(OOM)
                continue
            build.operation(
                "ttnn.relu",
                results={"%2": narrow},
                operands={"%1": wide},
                location="layers.0.relu.3",
                dram=loaded + 12_288,
                l1=0,
            )
            build.operation("ttnn.deallocate", operands={"%1": wide}, dram=loaded + 12_288, l1=4096)
            build.operation("ttnn.deallocate", operands={"%2": narrow}, dram=loaded, l1=4096)
    return build.build()


def hostile() -> Profile:
    """All texts of a source are as hostile as possible."""
    type_ = tensor(30, 30)
    build = ProfileBuilder(HOSTILE, warnings=[HOSTILE], facts={HOSTILE: HOSTILE}, kind="tt-mlir-log")
    build.argument(HOSTILE, 32, 32, graph=HOSTILE, on_device=True)
    with build.program(HOSTILE, finished=False):
        build.operation(HOSTILE, results={"%1": type_}, location=HOSTILE, dram=0, l1=0)
        build.operation("ttnn.add", operands={"%1": type_}, location=HOSTILE, dram=2048, l1=0)
        build.fail(f"{OOM} {HOSTILE}")
    with build.program(HOSTILE):
        build.operation("ttnn.add", location=HOSTILE, dram=0, l1=0)
    return build.build()


def without_states() -> Profile:
    """Operation lines, but memory logging was off."""
    build = ProfileBuilder("no-states")
    with build.program("main"):
        build.operation("ttnn.add", results={"%1": tensor(32, 32)})
    return build.build()


def without_operations() -> Profile:
    """Memory lines, but the log level was INFO."""
    build = ProfileBuilder("no-operations")
    for level in (10, 20):
        build.before_submit(dram=level)
        build.after_submit(dram=level + 5)
    return build.build()


def two_ranks() -> Profile:
    """The second rank is fuller."""
    build = ProfileBuilder("two-ranks")
    for rank, level in ((0, 1000), (1, 3000)):
        build.rank(rank)
        with build.program("main"):
            build.operation("ttnn.add", results={"%1": tensor(32, 32)}, location="a.1", dram=0, l1=0)
            build.operation("ttnn.deallocate", operands={"%1": tensor(32, 32)}, dram=level, l1=0)
    return build.build()


def many_weights(count: int = 5000) -> Profile:
    """A large model with long names, also in other scripts."""
    build = ProfileBuilder("many-weights-" + "long" * 100)
    type_ = tensor(30, 30)
    for number in range(count):
        build.argument(f"model.{'模块.' * 60}layers.{number}.self_attn.projection.weight", 64, number % 7 + 1)
    with build.program("main", finished=False):
        for number in range(60):
            build.operation(
                f"ttnn.very_long_operation_name_{'x' * 200}_{number}",
                results={f"%{number}": type_},
                location="l" * 3000 + str(number),
                dram=2048 * number,
                l1=10,
            )
        build.fail(OOM + " y" * 5000)
    return build.build()


ALL = {
    "two-layers": two_layers,
    "failed": lambda: two_layers(failed=True),
    "leak": lambda: two_layers(runs=6, leak_bytes=4096),
    "hostile": hostile,
    "without-states": without_states,
    "without-operations": without_operations,
    "two-ranks": two_ranks,
    "empty": lambda: ProfileBuilder("empty").build(),
}
