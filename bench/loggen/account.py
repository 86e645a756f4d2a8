# SPDX-License-Identifier: Apache-2.0
"""The exact account of device memory, and the blocks printed from it."""

from __future__ import annotations

from loggen.chips import MIB, Chip
from loggen.pools import Pool
from loggen.tensors import TensorType

MEMORIES = ("DRAM", "L1", "L1_SMALL", "TRACE")
TRACE_REGION_BYTES_PER_BANK = 16 * MIB
_MAX_CACHED_LINES = 8_192


class OutOfMemoryError(Exception):
    """A request no free block can hold; carries what the failure text prints."""

    def __init__(self, pool: Pool, bytes_per_bank: int) -> None:
        super().__init__(f"{pool.name}: {bytes_per_bank} B per bank do not fit")
        self.pool = pool
        self.bytes_per_bank = bytes_per_bank


class Buffer:
    """Device memory with its owners: SSA names, the const-eval cache, PJRT."""

    __slots__ = ("address", "owners", "pool", "producer", "retained", "role", "taken", "type")

    def __init__(
        self,
        pool: Pool,
        address: int,
        taken: int,
        type_: TensorType | None,
        producer: tuple[int, str, str] | None,
        role: str,
    ) -> None:
        self.pool = pool
        self.address = address
        self.taken = taken
        self.type = type_
        self.producer = producer
        """(index, op, location) of the op line that made it."""
        self.role = role
        """`op`, `argument` (uploaded before the program, named by it) or `unattributed` (nobody names it)."""
        self.owners = 0
        self.retained = False


class Account:
    """Four pools, every buffer in them, and running sums so that a block costs the same however much is alive."""

    def __init__(self, chip: Chip, *, with_trace_region: bool) -> None:
        trace = TRACE_REGION_BYTES_PER_BANK if with_trace_region else 0
        q = chip.quantum_bytes
        self.dram = Pool(
            "DRAM", banks=chip.dram_banks, size=chip.dram_bytes_per_bank - trace, quantum=q, top_down=False
        )
        self.l1 = Pool("L1", banks=chip.l1_banks, size=chip.l1_bytes_per_bank, quantum=q, top_down=True)
        self.l1_small = Pool(
            "L1_SMALL", banks=chip.l1_banks, size=chip.l1_small_bytes_per_bank, quantum=q, top_down=True
        )
        self.trace = Pool("TRACE", banks=chip.dram_banks, size=trace, quantum=q, top_down=False)
        self.pools = {pool.name: pool for pool in (self.dram, self.l1, self.l1_small, self.trace)}
        self.live: dict[Buffer, None] = {}
        self.live_sums: dict[tuple[str, str], list[int]] = {
            (pool, role): [0, 0, 0, 0] for pool in MEMORIES for role in ("op", "argument", "unattributed")
        }
        """Per memory and role: buffers, logical bytes x 16, padded bytes, bytes per bank."""
        self.ever_logical_sixteenths = 0
        self.ever_padded_bytes = 0
        self.true_peak = dict.fromkeys(MEMORIES, 0)
        self.changed = True

    def allocate(self, type_: TensorType, producer: tuple[int, str, str] | None, role: str = "op") -> Buffer:
        pool = self.dram if type_.pool == "DRAM" else self.l1
        taken = pool.taken(type_.bytes_per_bank)
        address = pool.allocate(taken)
        if address is None:
            raise OutOfMemoryError(pool, type_.bytes_per_bank)
        self.ever_logical_sixteenths += type_.logical_sixteenths
        self.ever_padded_bytes += type_.padded_bytes
        buffer = Buffer(pool, address, taken, type_, producer, role)
        sums = self.live_sums[pool.name, role]
        sums[0] += 1
        sums[1] += type_.logical_sixteenths
        sums[2] += type_.padded_bytes
        sums[3] += taken
        self._note(buffer)
        return buffer

    def allocate_raw(self, pool_name: str, bytes_per_bank: int, role: str = "unattributed") -> Buffer:
        """Memory without a tensor: what another owner keeps, or the trace region's contents."""
        pool = self.pools[pool_name]
        taken = pool.taken(bytes_per_bank)
        address = pool.allocate(taken)
        if address is None:
            raise OutOfMemoryError(pool, bytes_per_bank)
        buffer = Buffer(pool, address, taken, None, None, role)
        sums = self.live_sums[pool_name, role]
        sums[0] += 1
        sums[3] += taken
        self._note(buffer)
        return buffer

    def _note(self, buffer: Buffer) -> None:
        pool = buffer.pool
        self.live[buffer] = None
        self.changed = True
        if pool.allocated > self.true_peak[pool.name]:
            self.true_peak[pool.name] = pool.allocated

    def disown(self, buffer: Buffer) -> None:
        """One owner less; the memory comes back with the last one."""
        buffer.owners -= 1
        if buffer.owners > 0:
            return
        buffer.pool.release(buffer.address, buffer.taken)
        del self.live[buffer]
        self.changed = True
        sums = self.live_sums[buffer.pool.name, buffer.role]
        sums[0] -= 1
        sums[3] -= buffer.taken
        if buffer.type is not None:
            sums[1] -= buffer.type.logical_sixteenths
            sums[2] -= buffer.type.padded_bytes

    def lowest_l1_address(self, chip: Chip) -> int | None:
        """Absolute address of the lowest L1 buffer, as clash texts print it."""
        addresses = [buffer.address for buffer in self.live if buffer.pool is self.l1]
        return chip.l1_unreserved_base + min(addresses) if addresses else None


def printed_mib(value: int) -> str:
    """Bytes as the runtime prints them: MiB with three decimals, called MB."""
    return f"{value / MIB:.3f}"


class BlockPrinter:
    """Renders the four lines of a block; texts are kept by state because runs repeat the same states."""

    def __init__(self, account: Account, prefix: bytes) -> None:
        self._account = account
        self._prefix = prefix
        self._header = prefix + b"Device memory state before operation "
        self._cached: dict[tuple[str, int, int], bytes] = {}
        self._body = b""

    def before_operation(self, op_type: bytes) -> bytes:
        return self._header + op_type + b"\n" + self.body()

    def around_submit(self, when: str) -> bytes:
        return self._prefix + f"Device memory state {when} submit\n".encode() + self.body()

    def body(self) -> bytes:
        account = self._account
        if account.changed:
            account.changed = False
            if len(self._cached) > _MAX_CACHED_LINES:
                self._cached.clear()
            self._body = (
                self._line(account.dram)
                + self._line(account.l1)
                + self._line(account.l1_small)
                + self._line(account.trace)
            )
        return self._body

    def _line(self, pool: Pool) -> bytes:
        key = (pool.name, pool.allocated, pool.largest_free)
        line = self._cached.get(key)
        if line is None:
            text = (
                f"Device {pool.name} memory state: MemoryView{{numBanks: {pool.banks}, "
                f"totalBytesPerBank: {printed_mib(pool.size)} MB, "
                f"totalBytesAllocatedPerBank: {printed_mib(pool.allocated)} MB, "
                f"totalBytesFreePerBank: {printed_mib(pool.free)} MB, "
                f"largestContiguousBytesFreePerBank: {printed_mib(pool.largest_free)} MB}}\n"
            )
            line = self._cached[key] = self._prefix + text.encode()
        return line
