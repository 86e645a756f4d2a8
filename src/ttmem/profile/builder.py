# SPDX-License-Identifier: Apache-2.0
"""Builds a Profile from a recorder's messages, with a history per device."""

import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ttmem.profile.device_history import DeviceHistory, PlayedResident, shorten_path
from ttmem.profile.model import GraphArgument, Profile, Source
from ttmem.profile.tables import ProfileTables

KIND = "ttnn-capture"
_MOST_RANKS = 8
"""Limit of a warning; the profile's facts list all."""


class ProfileBuilder:
    """Builds a Profile from recorder messages in order; usable after a crash."""

    def __init__(self, tables: ProfileTables | None = None) -> None:
        """``tables`` are those of a profile with several processes."""
        self.hello: dict[str, Any] = {}
        self.exit_error = ""
        self.ended: dict[str, Any] | None = None
        """Error, signal or time limit that ended the program; None after a normal end."""
        self.skipped_comparisons = 0
        """Comparisons that were not made, and assertions that were not judged: a mock computes no values."""
        self.has_ended = False
        """The program reported its own end; a process that dies does not."""
        self._tables = tables or ProfileTables()
        self._notes: Counter[str] = Counter()
        self._histories: dict[int, DeviceHistory] = {}
        """By rank: a device, mesh or submesh among those that were open at the same time."""
        self._begun: list[tuple[DeviceHistory, int]] = []
        """All operations of the program, in order: history and index there."""

    def add(self, message: dict[str, Any]) -> None:
        if "start" in message:
            track = self._find_history(message)
            self._begun.append((track, track.start(message)))
        elif "end" in message:
            track, index = self._begun[message["end"]]
            track.end(index, message)
        elif "device" in message:
            self._find_history(message["device"]).open(message["device"])
        elif "paths" in message:
            self._find_history(message).keep_paths(message)
        elif "closed" in message:
            self._find_history(message).close(message)
        elif "moment" in message:
            self._find_history(message).add_moment(message)
        elif "note" in message:
            self._notes[message["note"]] += 1
        elif "exit" in message:
            self.has_ended = True
            self.exit_error = message["error"]
            if ended := message.get("ended"):
                self.ended = {**ended, "location": shorten_path(ended["location"])}
            led_here = [] if message["exit"] == 0 else [" ".join(text.split()) for text in message.get("chain", [])]
            if led_here or message["exit"] == 0:
                for track in self._histories.values():
                    track.mark_caught(but=led_here)
        elif "skipped" in message:
            self.skipped_comparisons = message["skipped"]
        elif "hello" in message:
            self.hello = message

    @property
    def running(self) -> dict[str, Any] | None:
        """The operation that began and has not ended: index, name, location."""
        return self._begun[-1][0].running if self._begun else None

    def count_parts(self) -> dict[int, tuple[int, int]]:
        """Return the numbers of operations and states by rank, as the end of one part of the program."""
        return {rank: track.count_parts() for rank, track in self._histories.items()}

    def _find_history(self, message: dict[str, Any]) -> DeviceHistory:
        rank = message.get("rank", 0)
        if rank not in self._histories:
            self._histories[rank] = DeviceHistory(self._tables, self._notes)
        return self._histories[rank]

    def end_process(self, *, signal_number: int | None = None, timeout_seconds: float | None = None) -> None:
        """Record how the process ended, where its own messages do not say: a failure of the running operation."""
        track = self._begun[-1][0] if self._begun else self._find_history({})
        if timeout_seconds is not None:
            text = f"stopped by --timeout {timeout_seconds:g} s"
            self._end("TimeoutExpired", text)
            track.fail_running(text)
        elif signal_number is not None:
            text = _describe_death(signal_number)
            self._end(_name_signal(signal_number), text)
            track.fail_running(text)
        elif self.exit_error and not self._is_known(self.exit_error):
            track.fail(self.exit_error, 0, -1)

    def _end(self, error: str, message: str) -> None:
        running = self.running
        self.ended = {"error": error, "message": message, "location": running["location"] if running else ""}

    def _is_known(self, error: str) -> bool:
        """Return whether the error is an operation's own, which the program did not catch: the same failure."""
        flat = " ".join(error.split())
        return any(known in flat for track in self._histories.values() for known in track.errors)

    @property
    def residents(self) -> dict[str, PlayedResident]:
        """Tensors that a player reports as lasting, by path."""
        return {path: one for track in self._histories.values() for path, one in track.residents.items()}

    def build(
        self,
        *,
        name: str,
        script: str,
        engine: str,
        board: str,
        kind: str = KIND,
        facts: Mapping[str, Any] = MappingProxyType({}),
    ) -> Profile:
        """Build the profile of the messages until now. Ranks are named where there are several."""
        self._find_history({})
        tracks = sorted(self._histories.items())
        arguments: dict[str, GraphArgument] = {}
        for _, track in tracks:
            track.finish()
            track.add_arguments(arguments)
        return self._tables.build(
            [track.build_timeline(script, rank if len(tracks) > 1 else -1) for rank, track in tracks],
            name=name,
            source=_read_source(kind, script, self._build_warnings()),
            facts={**self._build_facts(engine, board), **facts},
            arguments=list(arguments.values()),
        )

    def _build_warnings(self) -> tuple[str, ...]:
        notes = [f"{text} ({count} times)" if count > 1 else text for text, count in self._notes.items()]
        if ranks := self._describe_ranks():
            more = f"; and {len(ranks) - _MOST_RANKS} more" if len(ranks) > _MOST_RANKS else ""
            notes.insert(0, f"each device, mesh and submesh is a rank: {'; '.join(ranks[:_MOST_RANKS])}{more}")
        return tuple(notes)

    def _describe_ranks(self) -> list[str]:
        """Describe the ranks; empty where there is only one."""
        devices = [self._histories[rank].device for rank in sorted(self._histories)]
        return [_describe_rank(device) for device in devices if device] if len(devices) > 1 else []

    def _build_facts(self, engine: str, board: str) -> dict[str, Any]:
        facts: dict[str, Any] = {"engine": engine, "ttnn": self.hello.get("ttnn", "")}
        if board:
            facts["board"] = board
        first = self._histories[min(self._histories)].device
        if first:
            facts |= {"system": first["arch"], **{name: first[name] for name in ("grid", "mesh", "chips")}}
        if ranks := self._describe_ranks():
            facts["ranks"] = ranks
        if self.ended:
            facts["ended"] = self.ended
        if self.has_ended or self.skipped_comparisons:
            facts["skipped_comparisons"] = self.skipped_comparisons
        return facts


def _describe_rank(device: dict[str, Any]) -> str:
    """``rank 1: submesh 1x4 of rank 0, chips 4 0 2 6``."""
    shape = "x".join(map(str, device["mesh"]))
    what = f"submesh {shape} of rank {device['parent']}" if device["parent"] is not None else f"mesh {shape}"
    return f"rank {device['rank']}: {what}, chips {' '.join(map(str, device['chip_ids']))}"


_DEATHS: dict[int, str] = {
    signal.SIGSEGV: "Segmentation fault",
    signal.SIGABRT: "Aborted",
    signal.SIGKILL: "Killed",
    signal.SIGBUS: "Bus error",
    signal.SIGILL: "Illegal instruction",
}
"""Texts of a shell, which ``explain`` knows."""


def _describe_death(number: int) -> str:
    return _DEATHS.get(number) or f"the process exited on {_name_signal(number)}"


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal without a name
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def _read_source(kind: str, script: str, warnings: tuple[str, ...]) -> Source:
    """Read the script's size; 0 when it is missing or cannot be read."""
    try:
        content = Path(script).read_bytes()
    except OSError:
        content = b""
    return Source(kind=kind, name=script, bytes=len(content), lines=content.count(b"\n"), warnings=warnings)
