# SPDX-License-Identifier: Apache-2.0
"""Edits of a running program's calls: other options, splits, uploads at another time, tensors freed early.

Operations are named by their index among those of one device. Edits do not move it: their own calls are not recorded.
An impossible edit is reported by a note that begins with ``NOT_MADE``, and the call is made unchanged.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .library import Library
from .value_decoder import ValueDecoder

_MEMORY, _DTYPE, _INPLACE, _FREE, _CHUNK, _ORDER = "memory", "dtype", "inplace", "free", "chunk", "order"
NOT_MADE = "an edit was not made: "
_FIRST = "first"
_OURS = 3
"""References to a placeholder that are not the program's: the table's, a variable here, and the one that counts."""

Call = Callable[..., Any]


class CallEditor:
    def __init__(self, library: Library, edits: Sequence[Mapping[str, Any]], note: Callable[[str], None]) -> None:
        self._library, self._note = library, note
        self.rank: int = edits[0].get("rank", 0) if edits else 0
        """The device whose operations are edited; the others run unchanged."""
        self._options: dict[int, list[Mapping[str, Any]]] = {}
        self._frees: dict[int, list[Mapping[str, Any]]] = {}
        self._held_tensors: dict[int, list[Any]] = {}
        """Tensors to free, by the operation after which to free them."""
        self._early_tensors: dict[int, Any] = {}
        """Tensors that were allocated early, by the operation that would upload them."""
        self._late_tensors: dict[int, tuple[Any, Any]] = {}
        """By identity of the placeholder that the program got: the placeholder, and the postponed call or its
        tensor."""
        self._early_edits = [edit for edit in edits if edit["kind"] == _ORDER and edit["value"] == _FIRST]
        for edit in edits:
            place = self._frees if edit["kind"] == _FREE else self._options
            place.setdefault(edit["operation"], []).append(edit)

    def allocate_early(self, device: Any) -> None:
        """Allocate the tensors that are to be uploaded first, before the first operation of the device."""
        values = ValueDecoder(self._library, {}, lambda: device)
        for edit in self._early_edits:
            self._early_tensors[edit["operation"]] = values.allocate(edit["tensor"])
        self._early_edits = []

    def resolve(self, values: Any) -> Any:
        """Replace placeholders by their tensors; a postponed upload is made when its tensor is first read."""
        if not self._late_tensors:
            return values
        for key, (placeholder, _) in list(self._late_tensors.items()):
            if sys.getrefcount(placeholder) <= _OURS:  # the program has dropped it
                del self._late_tensors[key]
        return self._resolve_value(values)

    def _resolve_value(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._resolve_value, value)) if type(value) in (list, tuple) else value
        if isinstance(value, dict):
            return {key: self._resolve_value(one) for key, one in value.items()}
        if id(value) not in self._late_tensors:
            return value
        placeholder, made = self._late_tensors[id(value)]
        if not isinstance(made, self._library.ttnn.Tensor):
            made = made()
            self._late_tensors[id(value)] = (placeholder, made)
        return made

    def edit_call(
        self, index: int, function: Call, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Call, tuple[Any, ...], dict[str, Any]]:
        for edit in self._options.get(index, ()):
            if edit["kind"] == _CHUNK:
                function = self._split(edit, function)
            elif edit["kind"] == _ORDER:
                function = self._postpone(edit, function)
            else:
                arguments, options = self._change_options(edit, arguments, options)
        return function, arguments, options

    def _change_options(
        self, edit: Mapping[str, Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        ttnn = self._library.ttnn
        if any(isinstance(one, ttnn.TensorSpec) for one in (*arguments, *options.values())):
            self._note(
                f"{NOT_MADE}{edit['kind']} at operation {edit['operation']}: its call is given a whole TensorSpec"
            )
            return arguments, options
        if edit["kind"] == _INPLACE:
            first = next(iter(self._library.find_tensors((arguments, options))), None)
            return arguments, {**options, "output_tensor": first}
        if edit["kind"] == _MEMORY:
            placement = {"memory": edit["value"], "shard": edit.get("shard")}
            value = ValueDecoder(self._library, {}, _return_none).build_memory_config(placement)
            name, type_ = "memory_config", ttnn.MemoryConfig
        else:
            name, type_, value = "dtype", ttnn.DataType, getattr(ttnn, edit["value"])
            if edit.get("on_host") and any(map(self._is_on_host, arguments)):
                return self._convert_uploads(arguments, value), options
        place = next((at for at, given in enumerate(arguments) if isinstance(given, type_)), None)
        if place is None:
            return arguments, {**options, name: value}
        return (*arguments[:place], value, *arguments[place + 1 :]), options

    def _convert_uploads(self, arguments: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
        """Convert host tensors for an upload that does not convert types itself."""
        ttnn = self._library.ttnn
        return tuple(ttnn.to_dtype(one, dtype) if self._is_on_host(one) else one for one in arguments)

    def _is_on_host(self, value: Any) -> bool:
        return isinstance(value, self._library.ttnn.Tensor) and not self._library.is_on_device(value)

    def _postpone(self, edit: Mapping[str, Any], function: Call) -> Call:
        def later(*arguments: Any, **options: Any) -> Any:
            if edit["operation"] in self._early_tensors:
                return self._early_tensors.pop(edit["operation"])
            values, tensor = ValueDecoder(self._library, {}, _return_none), edit["tensor"]
            dtype, layout = values.find_data_type(tensor["dtype"]), values.find_layout(tensor["layout"])
            placeholder = self._library.ttnn.zeros(list(tensor["shape"]), dtype=dtype, layout=layout)
            self._late_tensors[id(placeholder)] = (placeholder, lambda: function(*arguments, **options))
            return placeholder

        return later

    def _split(self, edit: Mapping[str, Any], function: Call) -> Call:
        """Run the operation in chunks along one dimension and concatenate the results."""
        ttnn, library = self._library.ttnn, self._library

        def call_chunks(*arguments: Any, **options: Any) -> Any:
            dimension, size = edit["dimension"], edit["pieces"][-1][1]
            given = list(library.find_tensors((arguments, options)))
            rank = len(given[0].shape)
            if edit["keeps_last"] and dimension % rank == int(options.get("dim", -1)) % rank:
                self._note(f"{NOT_MADE}{edit['edit']}: the operation needs all of the dimension that would be cut")
                return function(*arguments, **options)
            results = []
            for begin, end in edit["pieces"]:
                parts: dict[int, Any] = {}
                for place, tensor in enumerate(given):
                    own = len(tensor.shape) + dimension
                    if (place == 0 or edit["cuts_all"]) and own >= 0 and tensor.shape[own] == size:
                        starts, ends = [0] * len(tensor.shape), list(tensor.shape)
                        starts[own], ends[own] = begin, end
                        parts.setdefault(
                            id(tensor), ttnn.slice(tensor, starts, ends, memory_config=tensor.memory_config())
                        )
                words = _replace_parts((arguments, options), parts)
                results.append(function(*words[0], **words[1]))
                for part in parts.values():
                    ttnn.deallocate(part)
            where = results[0].memory_config()  # else it would be in DRAM
            whole = ttnn.concat(results, dim=len(results[0].shape) + dimension, memory_config=where)
            for part in results:
                ttnn.deallocate(part)
            return whole

        return call_chunks

    def free_tensors(self, index: int, results: Any) -> None:
        """Hold tensors that are to be freed later, and free those that are due."""
        for edit in self._frees.get(index, ()):
            tensors = [results] if id(results) in self._late_tensors else self._library.find_device_tensors(results)
            if edit["position"] < len(tensors):
                self._held_tensors.setdefault(edit["after"], []).append(tensors[edit["position"]])
        for held in self._held_tensors.pop(index, ()):
            tensor = self._late_tensors[id(held)][1] if id(held) in self._late_tensors else held
            if isinstance(tensor, self._library.ttnn.Tensor) and self._library.is_on_device(tensor):
                self._library.ttnn.deallocate(tensor)


def _return_none() -> None:
    return None


def _replace_parts(value: Any, parts: Mapping[int, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_replace_parts(one, parts) for one in value)
    if isinstance(value, dict):
        return {key: _replace_parts(one, parts) for key, one in value.items()}
    return parts.get(id(value), value)
