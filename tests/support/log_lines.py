# SPDX-License-Identifier: Apache-2.0
"""Runtime logs written by hand, line by line, exactly as the runtime's logger prints them.

    log = Log()
    log.start("main")
    log.op(f'%0 = "ttnn.add"(%arg0, %arg1) : ({TWO_MB}, {TWO_MB}) -> {TWO_MB} loc("add.1")', dram=4.0)
    log.finish("main")
    profile = log.profile()

Figures are the printed ones: MiB per bank. Nothing here computes what a test expects.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from ttmem.profile.model import Profile
from ttmem.readers import read

WORMHOLE = {"DRAM": (12, 1024.0), "L1": (64, 1.27), "L1_SMALL": (64, 0.031), "TRACE": (12, 0.0)}
BLACKHOLE = {"DRAM": (8, 4075.0), "L1": (110, 1.3), "L1_SMALL": (110, 0.031), "TRACE": (8, 0.0)}
"""Memory -> (banks, MiB per bank)."""


def tensor(
    shape: str,
    memref: str,
    *,
    element: str = "bf16",
    buffer: str = "dram",
    grid: str = "1x1",
    placement: str = "interleaved",
    tail: str = "",
) -> str:
    """A tensor type as an operation line prints it; ``memref`` is ``96x128`` tiles or a written-out memref body."""
    body = memref if "!" in memref or "xb" in memref or "xs" in memref else f"{memref}x!ttcore.tile<32x32, {element}>"
    where = "" if buffer == "system_memory" else f", <{placement}>"
    rank = shape.count("x") + 1
    dims = ", ".join(f"d{i}" for i in range(rank))
    layout = f"({dims}) -> ({dims}), <{grid}>, memref<{body}, #ttnn.buffer_type<{buffer}>>{where}{tail}"
    return f"tensor<{shape}x{element}, #ttnn.ttnn_layout<{layout}>>"


ONE_MB = tensor("1536x4096", "48x128")
"""6,144 tiles of 2,048 bytes over 12 banks: 512 tiles, 1 MiB in each."""
TWO_MB = tensor("3072x4096", "96x128")
"""12,288 tiles over 12 banks: 1,024 tiles, 2 MiB in each; 25,165,824 bytes in all."""
HOST_TWO_MB = tensor("3072x4096", "3072x4096xbf16", buffer="system_memory")

DEVICE = '%0 = "ttnn.get_device"() <{mesh_shape = #ttnn<mesh_shape 1x1>}> : () -> !ttnn.device loc(unknown)'


def view(memory: str, allocated: float, banks: dict[str, tuple[int, float]], largest: float | None = None) -> str:
    """``Device DRAM memory state: MemoryView{...}``; MiB per bank."""
    count, total = banks[memory]
    free = total - allocated
    return (
        f"Device {memory} memory state: MemoryView{{numBanks: {count}, totalBytesPerBank: {total:.3f} MB, "
        f"totalBytesAllocatedPerBank: {allocated:.3f} MB, totalBytesFreePerBank: {free:.3f} MB, "
        f"largestContiguousBytesFreePerBank: {free if largest is None else largest:.3f} MB}}"
    )


class Log:
    """Collects lines; each method returns the number of the last line it wrote."""

    def __init__(
        self,
        *,
        colours: bool = False,
        prefix: str = "",
        line_end: str = "\n",
        state_level: str = "INFO",
        banks: dict[str, tuple[int, float]] = WORMHOLE,
    ) -> None:
        self.colours = colours
        self.prefix = prefix
        self.line_end = line_end
        self.state_level = state_level
        self.banks = banks
        self._text: list[bytes] = []

    # --- lines --------------------------------------------------------------------------------------------------

    def raw(self, data: bytes) -> int:
        """Bytes as they are, line end included by the caller."""
        self._text.append(data)
        return self.line_count

    def line(self, text: str) -> int:
        """A line of anybody else's."""
        return self.raw((text + self.line_end).encode())

    def lines(self, text: str) -> int:
        """Several lines at once (a module dump, an exception)."""
        for line in text.strip("\n").split("\n"):
            self.line(line)
        return self.line_count

    def record(self, component: str, level: str, message: str) -> int:
        """One record of the tt-mlir runtime logger."""
        return self.line(self.prefix + self.text_of(component, level, message))

    def text_of(self, component: str, level: str, message: str) -> str:
        if not self.colours:
            return f"{component:>23} | {level:>8} | {message}"
        colour = {"INFO": "38;5;69", "WARNING": "38;5;208", "ERROR": "31", "FATAL": "31"}.get(level, "38;5;240")
        return f"\x1b[32m{component:>23}\x1b[0m | \x1b[1m\x1b[{colour}m{level:>8}\x1b[0m | {message}"

    # --- records ------------------------------------------------------------------------------------------------

    def start(self, program: str = "main") -> int:
        return self.record("RuntimeTTNN", "DEBUG", f"Starting execution of program: {program}")

    def finish(self, program: str = "main") -> int:
        return self.record("RuntimeTTNN", "DEBUG", f"Finished execution of program: {program}")

    def op(self, text: str, dram: float | None = None, *, l1: float = 0.0, kind: str = "EltwiseBinaryOp") -> int:
        """An operation line, with its memory block when figures are given; returns the operation's own line."""
        number = self.record("RuntimeTTNN", "DEBUG", f"Executing operation: {text}")
        if dram is not None:
            self.block(f"before operation {kind}", dram, l1=l1)
        return number

    def free(self, value: str, type_: str, dram: float | None = None, *, l1: float = 0.0) -> int:
        """A deallocate operation; its block is the after-state of the operation before it."""
        text = f'"ttnn.deallocate"({value}) <{{force = false}}> : ({type_}) -> () loc("free{value}")'
        return self.op(text, dram, l1=l1, kind="DeallocateOp")

    def block(
        self, header: str, dram: float, *, l1: float = 0.0, largest: float | None = None, trace: float = 0.0
    ) -> int:
        """A header and its four memory lines."""
        self.record("Always", self.state_level, f"Device memory state {header}")
        for memory, allocated in (("DRAM", dram), ("L1", l1), ("L1_SMALL", 0.0), ("TRACE", trace)):
            self.view(memory, allocated, largest if memory == "DRAM" else None)
        return self.line_count

    def view(self, memory: str, allocated: float, largest: float | None = None) -> int:
        return self.record("Always", self.state_level, view(memory, allocated, self.banks, largest))

    def load_cached(self, function: str, *, key: str, hit: bool) -> int:
        """What a load_cached operation says about its cache."""
        self.record("Always", "DEBUG", f"Running LoadCachedOp for function {function} with hash: {key}")
        verdict = "Cache hit for" if hit else "Cache miss or invalid cache for"
        return self.record("Always", "DEBUG", f"{verdict} function: {function}")

    def retained(self) -> int:
        message = "Tensor is retained thus not deallocating. To deallocate, set retain to false first"
        return self.record("Always", "DEBUG", message)

    # --- the whole ----------------------------------------------------------------------------------------------

    @property
    def line_count(self) -> int:
        return sum(part.count(b"\n") for part in self._text)

    def bytes(self) -> bytes:
        return b"".join(self._text)

    def profile(self) -> Profile:
        return profile_of_bytes(self.bytes())


def profile_of_bytes(content: bytes) -> Profile:
    """What the reader makes of a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        path.write_bytes(content)
        return read(path)
