# SPDX-License-Identifier: Apache-2.0
"""A program run with changes that nobody wrote down: calls get other options, tensors are freed behind them.

Operations are named by their index, which a change does not move: what is done here is not recorded as an operation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .library import Library

_MEMORY, _DTYPE, _INPLACE, _FREE = "memory", "dtype", "inplace", "free"


class Editing:
    """What is to be done at which operation."""

    def __init__(self, library: Library, edits: Sequence[Mapping[str, Any]]) -> None:
        self._library = library
        self._options: dict[int, list[Mapping[str, Any]]] = {}
        self._made_by: dict[int, list[Mapping[str, Any]]] = {}
        self._held: dict[int, list[Any]] = {}
        """Tensors that are to be freed, by the operation after which that is."""
        for edit in edits:
            place = self._made_by if edit["kind"] == _FREE else self._options
            place.setdefault(edit["operation"], []).append(edit)

    def before(
        self, index: int, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call as it is to be made."""
        for edit in self._options.get(index, ()):
            arguments, options = self._changed(edit, arguments, options)
        return arguments, options

    def _changed(
        self, edit: Mapping[str, Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        ttnn = self._library.ttnn
        if edit["kind"] == _INPLACE:
            first = next(iter(self._library.tensors_in((arguments, options))), None)
            return arguments, {**options, "output_tensor": first}
        if edit["kind"] == _MEMORY:
            name, type_, value = "memory_config", ttnn.MemoryConfig, getattr(ttnn, f"{edit['value']}_MEMORY_CONFIG")
        else:
            name, type_, value = "dtype", ttnn.DataType, getattr(ttnn, edit["value"])
        place = next((at for at, given in enumerate(arguments) if isinstance(given, type_)), None)
        if place is None:
            return arguments, {**options, name: value}
        return (*arguments[:place], value, *arguments[place + 1 :]), options

    def after(self, index: int, results: Any) -> None:
        """Hold what is to be freed later, and free what is to be freed now."""
        made = self._made_by.get(index, ())
        tensors = self._library.device_tensors(results) if made else []
        for edit in made:
            if edit["position"] < len(tensors):
                self._held.setdefault(edit["after"], []).append(tensors[edit["position"]])
        for tensor in self._held.pop(index, ()):
            if self._library.is_on_device(tensor):
                self._library.ttnn.deallocate(tensor)
