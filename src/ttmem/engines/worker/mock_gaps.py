# SPDX-License-Identifier: Apache-2.0
"""What the library cannot do on a mock board and dies of: traces, waiting for queues, sub-devices.

None of it changes which buffers there are, so a program may go on: the operations of a trace run once, untraced; its
replays do nothing; all queues are one; a sub-device manager is taken as loaded. What is not known for that is said.
"""

import itertools
from collections.abc import Callable
from typing import Any

from .library import Library, Patches, replace_everywhere

Note = Callable[[str], None]

TRACE_NOTE = (
    "a trace was captured: its operations ran once, untraced, and its replays did nothing; how many bytes it takes of "
    "the trace region is not known, and what lies where its operations had their buffers is overwritten by a replay"
)
SUB_DEVICE_NOTE = (
    "sub-devices are not followed: all cores count as one device, memory of their own allocators is missing"
)


class MockGaps:
    """Fills the gaps of one process."""

    def __init__(self, library: Library, note: Note) -> None:
        self._library = library
        self._note = note
        self._numbers = itertools.count(1)
        self._capturing: Any = None
        """The trace that is being captured."""

    def install(self, patches: Patches) -> None:
        """Only where nothing is computed; a card does all this itself."""
        if not self._library.is_mock:
            return
        ttnn, core = self._library.ttnn, self._library.core
        trace = core.operations.trace
        for name, replacement in (
            ("begin_trace_capture", self._begin),
            ("end_trace_capture", self._end),
            ("execute_trace", _nothing),
            ("release_trace", _nothing),
        ):
            replace_everywhere(patches, {getattr(trace, name, None), getattr(ttnn, name, None)}, replacement)
        replace_everywhere(
            patches, {getattr(core.device, "is_trace_capture_active", None)}, lambda *_, **__: bool(self._capturing)
        )
        replace_everywhere(patches, {getattr(ttnn, "wait_for_event", None)}, _nothing)
        push = getattr(ttnn.decorators, "push_current_command_queue_id_for_thread", None)
        if push is not None:
            replace_everywhere(patches, {push}, lambda *_, **__: push(0))
        device = getattr(ttnn, "MeshDevice", None)
        for name in ("load_sub_device_manager", "clear_loaded_sub_device_manager", "remove_sub_device_manager"):
            patches.replace(device, name, lambda _: self._sub_devices)
        for name in ("set_sub_device_stall_group", "reset_sub_device_stall_group"):
            patches.replace(device, name, lambda _: _nothing)

    def _begin(self, *_: Any, **__: Any) -> Any:
        self._capturing = self._library.ttnn.MeshTraceId(next(self._numbers))
        self._note(TRACE_NOTE)
        return self._capturing

    def _end(self, *_: Any, **__: Any) -> None:
        self._capturing = None

    def _sub_devices(self, *_: Any, **__: Any) -> None:
        self._note(SUB_DEVICE_NOTE)


def _nothing(*_: Any, **__: Any) -> None:
    return None
