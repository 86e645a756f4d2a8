# SPDX-License-Identifier: Apache-2.0
"""Plays a script of steps and sends the messages that a recorder would send for such a program.

An entry is ``{"step": {...}}``: with a ``name`` the step is an operation of the recording (``place`` is its place in
the model, ``label`` the name of its result), without one it runs between operations. ``path`` and ``role`` describe a
tensor that stays; ``{"moment": true}`` asks for a state between operations. ``otherwise`` are the steps to run instead
of an operation, and of the next ``skips`` entries, when the library refuses it for another reason than memory: its
``end`` has ``refused`` and the script continues.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from .call_sites import CallSite
from .library import describe_tensor
from .open_devices import OpenOptions
from .protocol import format_error
from .recorder import Recorder, encode_state
from .steps import DeviceSession

ScriptEntry = dict[str, Any]
Send = Callable[[dict[str, Any]], None]
MEMORY_WORDS = ("Out of Memory", "clash with L1 buffers", "beyond max L1 size")
"""Parts of the library's messages for lack of memory."""
UPLOAD = "ttnn.to_device"
"""Name of a failed allocation between operations."""


class _Player(Recorder):
    """A recorder whose call sites are supplied by a script."""

    def __init__(self, session: DeviceSession, send: Send) -> None:
        super().__init__(session.library, self._send_message, options=OpenOptions())
        self._forward = send
        self._may_refuse = False
        session.monitor.close()
        self.follow_device(session.device, None)
        (self._monitor,) = self._devices.list_monitors()
        self._here = CallSite("", 0, ())
        self._session = session
        self._kept: list[list[Any]] = []
        """Tensors that stay and were not reported yet: name, path and role."""
        self._monitor.read_state()  # begins the capture

    def _send_message(self, message: dict[str, Any]) -> None:
        """Send an error as a refusal where the script has an alternative."""
        if self._may_refuse and "error" in message and not is_about_memory(message["error"]):
            message["refused"] = message.pop("error")
        self._forward(message)

    def _find_site(self, name: str) -> CallSite:
        return self._here

    def _send_paths(self) -> None:
        """Does nothing: paths are sent with moments."""

    def send_moment(self) -> None:
        self._send({"moment": True, **encode_state(self._monitor.read_state())})
        paths, described = [], []
        for name, path, role in self._kept:
            tensor = self._session.tensors.get(name)
            found = self._devices.find_buffer(tensor) if tensor is not None else None
            if found is not None:
                number = found[1].number
                paths.append([number, path, True, role])
                described.append([number, describe_tensor(tensor)])
        self._kept.clear()
        self._send({"paths": paths, "tensors": described})

    def run_between(self, entry: ScriptEntry) -> None:
        step = entry["step"]
        if "free" not in step or step["free"] in self._session.tensors:  # a refused step made nothing
            self._session.do(step)
        self.keep(entry)

    def keep(self, entry: ScriptEntry) -> None:
        if "path" in entry:
            step = entry["step"]
            name = step.get("alloc") or step.get("out")
            self._kept.append([name, entry["path"], entry["role"]])

    def run_operation(self, entry: ScriptEntry) -> None:
        name, label = entry["name"], entry.get("label")
        self._may_refuse = "otherwise" in entry
        self._here = CallSite(entry.get("place", ""), 0, (label,) if label else ())
        self._session.call_through(entry["step"], lambda *call: self.operation(name, *call))
        if self._session.declined:
            self._send({"bounded": f"{name} {self._session.declined}"})
        self.keep(entry)


def play(session: DeviceSession, script: list[ScriptEntry], send: Send) -> None:
    """Play a script to its end, or to the first entry that fails."""
    player = _Player(session, send)
    left = deque(script)
    while left:
        entry = left.popleft()
        try:
            if "moment" in entry:
                player.send_moment()
            elif "name" in entry:
                player.run_operation(entry)
            else:
                player.run_between(entry)
        except Exception as error:
            if "otherwise" in entry and not is_about_memory(str(error)):
                substitute_steps(entry, left)
                continue
            if "name" not in entry:
                _replay_failed_upload(player, entry, error, send)
            break
    player.finish()


def substitute_steps(entry: ScriptEntry, left: deque[ScriptEntry]) -> None:
    """Put an entry's alternative steps in front of the script and skip the entries that belong to it."""
    for _ in range(entry["skips"]):
        left.popleft()
    left.extendleft({"step": step} for step in reversed(entry["otherwise"]))


def is_about_memory(text: str) -> bool:
    return any(words in text for words in MEMORY_WORDS)


def _replay_failed_upload(player: _Player, entry: ScriptEntry, error: Exception, send: Send) -> None:
    """Repeat a failed upload as an operation: it fails again, and has a location then."""
    if "alloc" in entry.get("step", {}):
        player.send_moment()
        try:
            player.run_operation({**entry, "name": UPLOAD, "place": entry.get("path", "")})
        except Exception:
            return
    send({"exit": 1, "error": f"{type(error).__name__}: {format_error(error)}"})
