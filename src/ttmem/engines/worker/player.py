# SPDX-License-Identifier: Apache-2.0
"""Plays a script of steps and tells what a recorder would tell of a program that does the same.

An entry is ``{"step": {...}}``: with a ``name`` the step is an operation of the recording (``place`` says where in the
model, ``label`` what its result is called), without one it happens between operations. ``path`` and ``role`` say what a
tensor is that stays; ``{"moment": true}`` asks for a state of the memory between operations. ``otherwise`` is what is
done in the place of an operation, and of so many entries after it (``skips``), that the library refuses for another
reason than memory: its ``end`` says ``refused`` and the script goes on.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from .call_sites import Site
from .library import describe
from .open_devices import OpenOptions
from .protocol import error_text
from .recorder import Recorder, state_message
from .steps import Session

Entry = dict[str, Any]
Send = Callable[[dict[str, Any]], None]
MEMORY_WORDS = ("Out of Memory", "clash with L1 buffers", "beyond max L1 size")
"""How the library says that there is no room."""
UPLOAD = "ttnn.to_device"
"""What an allocation between operations is called when it fails."""


class _Player(Recorder):
    """A recorder that is told where it is, instead of looking at the stack."""

    def __init__(self, session: Session, send: Send) -> None:
        super().__init__(session.library, self._told, options=OpenOptions())
        self._tell = send
        self._may_refuse = False
        session.watch.close()
        self.device_opened(session.device, None)
        (self._played,) = self._followed.all()
        self._here = Site("", 0, ())
        self._session = session
        self._kept: list[list[Any]] = []
        """Tensors that stay, not yet told of: their name, path and role."""
        self._played.state()  # from now on it listens

    def _told(self, message: dict[str, Any]) -> None:
        """A refusal is no failure where the script knows what to do instead."""
        if self._may_refuse and "error" in message and not is_about_memory(message["error"]):
            message["refused"] = message.pop("error")
        self._tell(message)

    def _site(self, name: str) -> Site:
        return self._here

    def _send_paths(self) -> None:
        """They are told at moments."""

    def moment(self) -> None:
        """A state, and what the tensors are that stay."""
        self._send({"moment": True, **state_message(self._played.state())})
        paths, described = [], []
        for name, path, role in self._kept:
            tensor = self._session.tensors.get(name)
            found = self._followed.buffer_of(tensor) if tensor is not None else None
            if found is not None:
                number = found[1].number
                paths.append([number, path, True, role])
                described.append([number, describe(tensor)])
        self._kept.clear()
        self._send({"paths": paths, "tensors": described})

    def quietly(self, entry: Entry) -> None:
        """Outside operations."""
        step = entry["step"]
        if "free" not in step or step["free"] in self._session.tensors:  # what was refused was never made
            self._session.do(step)
        self.stays(entry)

    def stays(self, entry: Entry) -> None:
        if "path" in entry:
            step = entry["step"]
            name = step.get("alloc") or step.get("out")
            self._kept.append([name, entry["path"], entry["role"]])

    def as_operation(self, entry: Entry) -> None:
        name, label = entry["name"], entry.get("label")
        self._may_refuse = "otherwise" in entry
        self._here = Site(entry.get("place", ""), 0, (label,) if label else ())
        self._session.call_through(entry["step"], lambda *call: self.operation(name, *call))
        if self._session.declined:
            self._send({"bounded": f"{name} {self._session.declined}"})
        self.stays(entry)


def play(session: Session, script: list[Entry], send: Send) -> None:
    """To its end, or to the first entry that fails."""
    player = _Player(session, send)
    left = deque(script)
    while left:
        entry = left.popleft()
        try:
            if "moment" in entry:
                player.moment()
            elif "name" in entry:
                player.as_operation(entry)
            else:
                player.quietly(entry)
        except Exception as error:
            if "otherwise" in entry and not is_about_memory(str(error)):
                instead(entry, left)
                continue
            if "name" not in entry:
                _tell_failed_upload(player, entry, error, send)
            break
    player.finish()


def instead(entry: Entry, left: deque[Entry]) -> None:
    """Put in front what is to be done in the place of an entry that was refused, and of those that go with it."""
    for _ in range(entry["skips"]):
        left.popleft()
    left.extendleft({"step": step} for step in reversed(entry["otherwise"]))


def is_about_memory(text: str) -> bool:
    return any(words in text for words in MEMORY_WORDS)


def _tell_failed_upload(player: _Player, entry: Entry, error: Exception, send: Send) -> None:
    """Once more, as an operation: it fails again and has a place then."""
    if "alloc" in entry.get("step", {}):
        player.moment()
        try:
            player.as_operation({**entry, "name": UPLOAD, "place": entry.get("path", "")})
        except Exception:
            return
    send({"exit": 1, "error": f"{type(error).__name__}: {error_text(error)}"})
