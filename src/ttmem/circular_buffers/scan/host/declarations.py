# SPDX-License-Identifier: Apache-2.0
"""Drafts to declarations and kernel uses: which field of which API says what."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from ttmem.circular_buffers.scan.cpp import expressions as cpp
from ttmem.circular_buffers.scan.cpp.arithmetic import OF_THE_DATA_TYPE
from ttmem.circular_buffers.scan.cpp.functions import ObjectDraft
from ttmem.circular_buffers.scan.host.calls import KERNEL, name_text
from ttmem.circular_buffers.scan.model import (
    ADAPTIVE,
    DATAFLOW_SPEC,
    DESCRIPTOR_FIELDS,
    FIXED,
    UNKNOWN,
    Declaration,
    KernelUse,
)

CONSTANT, PER_DTYPE, SYMBOLIC, PIECEWISE, UNREADABLE = "constant", "per-dtype", "symbolic", "piecewise", "opaque"
"""How much of a size the source says: a number, a number per data type, an expression, alternatives, or nothing."""
_DTYPE_LEAF = re.compile(
    r"(?:element_size|datum_size|get_tile_size|tile_size|dtype|data_?format)\w*\(?.*\)?$", re.IGNORECASE
)
_STRATEGIES = {CONSTANT: FIXED, PER_DTYPE: FIXED, SYMBOLIC: ADAPTIVE, PIECEWISE: ADAPTIVE, UNREADABLE: UNKNOWN}
"""A depth that the workload cannot change is fixed, whatever the data type makes of it in bytes."""

_SIGNS = {DESCRIPTOR_FIELDS: {"total_size"}, DATAFLOW_SPEC: {"entry_size", "num_entries", "unique_id"}}
"""Fields without which an object of that kind declares no buffer: one of them is enough."""


class Finisher:
    """Turns the drafts of one file into values that can leave the process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._portable = cpp.Portable()

    def split_drafts(self, drafts: Sequence[ObjectDraft], function: str) -> tuple[list[Declaration], list[KernelUse]]:
        """The buffers and the kernels among the drafts."""
        names = program_names(drafts, function)
        buffers = [self._declaration(draft, names[id(draft)]) for draft in drafts if _is_buffer(draft)]
        uses = [
            self._kernel(draft, names[id(draft)], source, guards)
            for draft in drafts
            if draft.kind == KERNEL
            for source, guards in islice(_sources_of(_path_of(draft)), 16)
        ]
        return buffers, uses

    def _declaration(self, draft: ObjectDraft, program: str) -> Declaration:
        fields = draft.fields
        formats = _formats(draft)
        page = fields.get("page_size") or fields.get("entry_size") or (formats[0][2] if formats else None)
        total = fields.get("total_size")
        if draft.kind == DATAFLOW_SPEC:
            entries, size = fields.get("num_entries"), fields.get("entry_size")
            total = cpp.Binary("*", entries, size) if entries is not None and size is not None else None
        data_format = fields.get("data_format") or fields.get("data_format_metadata")
        if data_format is None and formats:
            data_format = formats[0][1]
        indices = [index for index, _, _ in formats if index is not None]
        if not indices and "page_index" in fields:
            only = cpp.plain(fields["page_index"])
            indices = list(only.items) if isinstance(only, cpp.Items) else [fields["page_index"]]
        name = name_text(fields.get("unique_id")) if draft.kind == DATAFLOW_SPEC else ""
        total = self._portable.rewrite_optional(total)
        kind = size_class(total)
        borrowed, borrowed_if = self._find_borrowed(draft)
        return Declaration(
            file=self._path,
            line=draft.trail[0][1] if draft.trail else draft.line,
            api=draft.kind,
            program=program,
            indices=tuple(map(self._portable, indices)),
            name=name,
            total=total,
            page=self._portable.rewrite_optional(page),
            format=self._portable.rewrite_optional(data_format),
            core_ranges=self._portable.rewrite_optional(fields.get("core_ranges")),
            size_class=kind,
            strategy=_STRATEGIES[kind],
            borrowed=borrowed,
            borrowed_if=borrowed_if,
            conditions=self._conditions(draft.guards),
            trail=draft.trail,
            repeats=self._portable.rewrite_optional(draft.repeats),
            site=(draft.file, draft.line, draft.column),
        )

    def _conditions(self, guards: Sequence[cpp.Condition]) -> tuple[cpp.Condition, ...]:
        return tuple(cpp.Condition(guard.text, guard.holds, self._portable(guard.expression)) for guard in guards)

    def _find_borrowed(self, draft: ObjectDraft) -> tuple[bool, cpp.Condition | None]:
        """Backed by a tensor or by a global buffer; or only under a condition."""
        for field in ("buffer", "tensor", "borrowed_from", "global_circular_buffer"):
            value = draft.fields.get(field)
            if value is None or _is_nothing(value):
                continue
            guards = draft.field_guards.get(field, ())
            if guards:
                return False, self._conditions(guards[-1:])[0]
            inner = cpp.plain(value)
            if isinstance(inner, cpp.Conditional) and _is_nothing(inner.yes) != _is_nothing(inner.no):
                condition = self._portable(inner.condition)
                return False, cpp.Condition(cpp.render(condition), not _is_nothing(inner.yes), condition)
            return True, None
        return False, None

    def _kernel(self, draft: ObjectDraft, program: str, source: str, guards: Sequence[cpp.Condition]) -> KernelUse:
        fields = draft.fields
        positional, named = self._arguments(fields.get("compile_time_args"))
        _, more = self._arguments(fields.get("named_compile_time_args"))
        return KernelUse(
            file=self._path,
            program=program,
            source=source,
            core_ranges=self._portable.rewrite_optional(fields.get("core_ranges")),
            compile_time_args=positional,
            named_args=(*named, *more),
            bindings=_bindings(fields.get("dfb_bindings")),
            conditions=self._conditions((*draft.guards, *guards)),
            one_thread=cpp.evaluate(fields.get("num_threads", cpp.Integer(1))) == 1,
        )

    def _arguments(
        self, listed: cpp.Expression | None
    ) -> tuple[tuple[cpp.Expression, ...] | None, tuple[tuple[str, cpp.Expression], ...]]:
        items = cpp.plain(listed) if listed is not None else None
        if not isinstance(items, cpp.Items):
            return None, ()
        named = []
        positional = []
        for item in items.items:
            pair = cpp.plain(item)
            first = cpp.plain(pair.items[0]) if isinstance(pair, cpp.Items) and len(pair.items) == 2 else None
            if isinstance(pair, cpp.Items) and isinstance(first, cpp.Text):
                named.append((first.value, self._portable(pair.items[1])))
            else:
                positional.append(self._portable(item))
        return tuple(positional), tuple(named)


def program_names(drafts: Sequence[ObjectDraft], function: str) -> dict[int, str]:
    """Return the program of each draft: the function's only one, or one of several."""
    made_for = {id(draft): draft.fields.get("program") for draft in drafts}
    objects: dict[int, str] = {}
    for program in made_for.values():
        if program is not None:
            called = program.name if isinstance(program, cpp.NamedValue) else cpp.render(program)
            objects.setdefault(id(cpp.plain(program)), called)
    if len(objects) < 2:
        return dict.fromkeys(made_for, function)
    titles = {key: f"{function} [{called} {number}]" for number, (key, called) in enumerate(objects.items(), start=1)}
    first = next(iter(titles))
    return {draft: titles[first if program is None else id(cpp.plain(program))] for draft, program in made_for.items()}


def _is_buffer(draft: ObjectDraft) -> bool:
    needed = _SIGNS.get(draft.kind)
    return draft.kind != KERNEL and (needed is None or bool(draft.fields.keys() & needed))


def _is_nothing(value: cpp.Expression) -> bool:
    inner = cpp.plain(value)
    if isinstance(inner, cpp.Symbol):
        return inner.text.rpartition("::")[2] in ("nullopt", "nullptr")
    return isinstance(inner, cpp.Integer) and inner.value == 0


def _formats(draft: ObjectDraft) -> list[Sequence[cpp.Expression | None]]:
    """(index, format, page) of each index that shares the buffer."""
    listed = draft.fields.get("format_descriptors") or draft.fields.get("formats")
    return _parts(listed, ("buffer_index",), ("data_format",), ("page_size",), least=2)


def _parts(listed: cpp.Expression | None, *fields: Sequence[str], least: int) -> list[Sequence[cpp.Expression | None]]:
    """Return these fields of each item, by name, or by position where it has no names and is long enough."""
    found: list[Sequence[cpp.Expression | None]] = []
    for item in _flat(listed):
        if isinstance(item, cpp.Record):
            found.append([next(filter(None, map(item.get, names)), None) for names in fields])
        elif isinstance(item, cpp.Items) and len(item.items) >= least:
            found.append((*item.items, None)[: len(fields)])
    return found


def _flat(listed: cpp.Expression | None) -> list[cpp.Expression]:
    """`{{a, b}}` and `{{{a, b}}}` both hold one pair: braces may be doubled."""
    value = cpp.plain(listed) if listed is not None else None
    if not isinstance(value, cpp.Items):
        return [value] if isinstance(value, cpp.Record) else []
    inner = [cpp.plain(item) for item in value.items]
    if len(inner) == 1 and isinstance(inner[0], cpp.Items) and inner[0].items:
        nested = [cpp.plain(item) for item in inner[0].items]
        if all(isinstance(item, (cpp.Items, cpp.Record)) for item in nested):
            return nested
    return inner


_Guards = tuple[cpp.Condition, ...]


def _path_of(draft: ObjectDraft) -> cpp.Expression:
    return draft.fields.get("kernel_source") or draft.fields.get("source") or cpp.Text("")


def _sources_of(expression: cpp.Expression, guards: _Guards = ()) -> Iterator[tuple[str, _Guards]]:
    """The kernel's path; several where a condition chooses among them."""
    value = cpp.plain(expression)
    if isinstance(value, cpp.Items) and value.items:
        value = cpp.plain(value.items[0])
    if isinstance(value, cpp.Conditional):
        for holds, side in ((True, value.yes), (False, value.no)):
            yield from _sources_of(side, (*guards, cpp.Condition(cpp.render(value.condition), holds, value.condition)))
    elif isinstance(value, cpp.Text) and value.value:
        yield value.value, guards


def _bindings(listed: cpp.Expression | None) -> tuple[tuple[str, str], ...]:
    names = (("dfb_spec_name", "dfb", "unique_id"), ("accessor_name", "name", "local_accessor_name"))
    found = _parts(listed, *names, least=3)
    return tuple((name_text(buffer), name_text(accessor)) for buffer, accessor in found)


def size_class(total: cpp.Expression | None) -> str:
    """Return the size in bytes."""
    if total is None:
        return UNREADABLE
    if cpp.evaluate(total) is not None:
        return CONSTANT
    nodes = list(cpp.every_node(total, stop=_is_of_the_data_type))
    unknown = [node for node in nodes if isinstance(node, cpp.Symbol) and not _names_a_data_type(node)]
    if any(node.kind == cpp.OPAQUE for node in unknown):
        return UNREADABLE
    if any(isinstance(node, cpp.Conditional) for node in nodes) or any(node.kind == cpp.LOOP for node in unknown):
        return PIECEWISE
    if unknown or any(isinstance(node, cpp.FunctionCall) and node.function in ("min", "max") for node in nodes):
        return SYMBOLIC
    known = any(_is_of_the_data_type(node) or isinstance(node, (cpp.Symbol, cpp.Enumerator)) for node in nodes)
    return PER_DTYPE if known else UNREADABLE


def _is_of_the_data_type(node: cpp.Expression) -> bool:
    return isinstance(node, cpp.FunctionCall) and node.function in OF_THE_DATA_TYPE


def _names_a_data_type(node: cpp.Symbol) -> bool:
    if node.kind in (cpp.LOOP, cpp.OPAQUE):
        return False
    last = re.split(r"->|\.|::", node.text.split("(")[0])[-1]
    return (
        bool(_DTYPE_LEAF.match(last))
        if node.kind != cpp.CALL
        else last in ("get_tile_size", "element_size", "datum_size")
    )
