# SPDX-License-Identifier: Apache-2.0
"""What a watcher log shows: which processors stood in a circular buffer's wait, which buffers were not empty."""

from dataclasses import dataclass

PROCESSORS = ("BRISC", "NCRISC", "TRISC0", "TRISC1", "TRISC2")
WAITS_FOR_DATA, WAITS_FOR_ROOM = "waits for data (cb_wait_front)", "waits for room (cb_reserve_back)"

_STUCK = {"CWFW": WAITS_FOR_DATA, "CRBW": WAITS_FOR_ROOM}


@dataclass(frozen=True, slots=True)
class HeldBuffer:
    """A buffer that somebody had filled and nobody had emptied."""

    index: int
    pages: int


@dataclass(frozen=True, slots=True)
class CoreState:
    """One core at the last dump that shows it."""

    device: int
    x: int
    y: int
    waypoints: tuple[str, ...]
    kernel_ids: tuple[int, ...]
    held: tuple[HeldBuffer, ...]
    line: int

    @property
    def stuck(self) -> tuple[tuple[str, str], ...]:
        """Processors whose last sign of life was the start of a wait on a circular buffer, and which wait."""
        pairs = zip(PROCESSORS, self.waypoints, strict=False)
        return tuple((processor, _STUCK[point]) for processor, point in pairs if point in _STUCK)


@dataclass(frozen=True, slots=True)
class WatcherFacts:
    """The last state of every core, and what the log calls an error."""

    dumps: int
    cores: tuple[CoreState, ...]
    kernels: dict[int, str]
    overflow_lines: tuple[int, ...]

    @property
    def stuck_cores(self) -> tuple[CoreState, ...]:
        """Cores with a processor in a circular buffer's wait."""
        return tuple(core for core in self.cores if core.stuck)

    def story(self, core: CoreState) -> list[str]:
        """Who waits for whom on this core, in words."""
        names = [self.kernels.get(number, "") for number in core.kernel_ids]
        roles = dict(zip(("BRISC", "NCRISC", "TRISC0"), names, strict=False))
        lines = []
        for processor, wait in core.stuck:
            kernel = roles.get(processor if processor[:2] != "TR" else "TRISC0", "")
            lines.append(f"{processor}{f' ({kernel})' if kernel else ''} {wait}")
        lines += [
            f"cb{buffer.index} holds {buffer.pages} page{'s' if buffer.pages != 1 else ''} nobody took"
            for buffer in core.held
        ]
        waits = [wait for _, wait in core.stuck]
        if WAITS_FOR_DATA in waits and WAITS_FOR_ROOM in waits:
            lines.append(
                "one side waits for data, another for room: compare pushed and popped pages, and depths (R1, R4, R5)"
            )
        elif WAITS_FOR_DATA in waits and not core.held:
            lines.append(
                "every buffer is empty and somebody waits for data: its producer stopped or pushed too little (R4)"
            )
        return lines
