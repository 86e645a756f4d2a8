# SPDX-License-Identifier: Apache-2.0
"""Host code: which buffers and kernels a program factory puts into its program.

Four generations of the API live side by side: `CircularBufferConfig`, the `create_cb` helper, `CBDescriptor` (as
one literal or field by field) and `DataflowBufferSpec`. An object may be changed after it was made, so each is a draft
until its function has been followed to the end.
"""

from collections.abc import Sequence

from ttmem.circular_buffers.scan.cpp import expressions as cpp
from ttmem.circular_buffers.scan.cpp.functions import (
    DraftValue,
    FileIndex,
    FollowerListener,
    Function,
    Helpers,
    ObjectDraft,
    draft_in,
)
from ttmem.circular_buffers.scan.cpp.interpreter import FunctionFollower
from ttmem.circular_buffers.scan.cpp.syntax import Node, line_of
from ttmem.circular_buffers.scan.model import CONFIG, CREATE_CB, DATAFLOW_SPEC, DESCRIPTOR, DESCRIPTOR_FIELDS

KERNEL = "kernel"
_KERNEL_TYPES = frozenset({"KernelDescriptor", "KernelSpec"})
_PROGRAM_TYPES = frozenset({"Program", "ProgramDescriptor", "ProgramSpec"})
_NAME_TYPES = frozenset({"DFBSpecName", "KernelSpecName", "TensorParamName"})
_MADE_BY_CALL = frozenset({CONFIG, DESCRIPTOR, DATAFLOW_SPEC, *_KERNEL_TYPES, *_NAME_TYPES})
_HARMLESS = frozenset(
    {"SetRuntimeArgs", "SetCommonRuntimeArgs", "CreateSemaphore", "UpdateDynamicCircularBufferAddress", "print"}
)
"""Library calls that take their numbers by value."""
_SETTERS = {
    "set_total_size": "total_size",
    "set_tile_dims": "tile",
    "set_globally_allocated_address": "buffer",
    "set_globally_allocated_address_and_total_size": "buffer",
}

_COMPILE_TIME = {
    "compile_args": "compile_time_args",
    "compile_time_args": "compile_time_args",
    "named_compile_args": "named_compile_time_args",
    "named_compile_time_args": "named_compile_time_args",
}
_FIRST_SETTERS = {"index": "page_index", "set_data_format": "data_format"}
"""Of a buffer with several indices the first one counts."""


class HostListener(FollowerListener):
    """Collects drafts of buffers and kernels while functions are followed."""

    def __init__(self, index: FileIndex, elsewhere: Helpers | None = None) -> None:
        self.interpreter = FunctionFollower(index, self, elsewhere)
        self.drafts: list[ObjectDraft] = []
        self.made = 0
        self._loops: list[cpp.Expression] = []
        self._outer_loops = 0
        """Loops that make a new program each time: they do not multiply its buffers."""

    def follow(self, statements: Sequence[Node], function: Function | None = None) -> list[ObjectDraft]:
        """Return the drafts of a function or of loose statements, in the order in which the program gets them."""
        self.drafts = []
        self._loops = []
        self._outer_loops = 0
        self.interpreter.run(statements, function)
        return sorted(self.drafts, key=lambda draft: draft.order)

    def construct(self, type_name: str, value: cpp.Expression | None, node: Node) -> cpp.Expression | None:
        if type_name in _PROGRAM_TYPES:
            self._outer_loops = len(self._loops)
            return None
        if type_name == CONFIG:
            arguments = value.items if isinstance(value, cpp.Items) else ()
            return self._config(arguments, node)
        if type_name in (DESCRIPTOR, DATAFLOW_SPEC) or type_name in _KERNEL_TYPES:
            if isinstance(value, cpp.Items) and value.items:  # a copy or a conversion
                return value.items[0] if draft_in(value.items[0]) is not None else None
            kind = KERNEL if type_name in _KERNEL_TYPES else type_name
            if type_name == DESCRIPTOR and not isinstance(value, cpp.Record):
                kind = DESCRIPTOR_FIELDS
            draft = self._draft(kind, node)
            if isinstance(value, cpp.Record):
                draft.fields.update(value.fields)
            return DraftValue(draft)
        if type_name in _NAME_TYPES and isinstance(value, cpp.Items) and len(value.items) == 1:
            return value.items[0]
        return None

    def call(
        self, name: str, receiver: cpp.Expression | None, arguments: Sequence[cpp.Expression], node: Node
    ) -> cpp.Expression | None:
        if receiver is not None:
            return self._method(name, receiver, arguments)
        if name in _MADE_BY_CALL:
            return self.construct(name, cpp.Items(tuple(arguments)) if arguments else None, node)
        if name == "CreateCircularBuffer" and len(arguments) >= 3:
            return self._add_program(arguments)
        if name == "create_cb" and len(arguments) >= 6:
            return self._create_cb(arguments, node)
        if name == "CreateProgram":
            self._outer_loops = len(self._loops)
            return None
        if name in _HARMLESS:
            return cpp.Integer(0)
        if name in ("CreateKernel", "CreateKernelFromString") and len(arguments) >= 4:
            return self._create_kernel(name, arguments, node)
        return None

    def assign_field(
        self, receiver: cpp.Expression, field: str, value: cpp.Expression, node: Node
    ) -> cpp.Expression | None:
        draft = draft_in(receiver)
        if draft is None:
            if field != "total_size" or not isinstance(cpp.plain(receiver), cpp.Symbol):
                return None
            draft = self._draft(DESCRIPTOR_FIELDS, node)  # a descriptor that a caller handed over
        if draft.kind == DESCRIPTOR_FIELDS and field == "total_size":
            left = node.child_by_field_name("left")
            draft.line, draft.column = line_of(left), int(left.start_point[1])
        draft.fields[field] = value
        draft.field_guards[field] = self._extra_guards(draft)
        return DraftValue(draft)

    def enter_loop(self, trips: cpp.Expression, node: Node) -> None:
        self._loops.append(trips)

    def exit_loop(self) -> None:
        self._loops.pop()
        self._outer_loops = min(self._outer_loops, len(self._loops))

    def _draft(self, kind: str, node: Node) -> ObjectDraft:
        self.made += 1
        draft = ObjectDraft(
            kind,
            self.interpreter.source.path,
            line_of(node),
            int(node.start_point[1]),
            guards=self.interpreter.guards,
            trail=self.interpreter.trail,
            repeats=self._repeats(),
            order=self.made,
        )
        self.drafts.append(draft)
        return draft

    def _repeats(self) -> cpp.Expression | None:
        total: cpp.Expression | None = None
        for trips in self._loops[self._outer_loops :]:
            total = trips if total is None else cpp.fold(cpp.Binary("*", total, trips))
        return total

    def _extra_guards(self, draft: ObjectDraft) -> tuple[cpp.Condition, ...]:
        """Conditions that hold where a field is set but not where its object was made."""
        made_under = {id(guard.expression) for guard in draft.guards}
        return tuple(guard for guard in self.interpreter.guards if id(guard.expression) not in made_under)

    def _config(self, arguments: Sequence[cpp.Expression], node: Node) -> cpp.Expression:
        if len(arguments) == 1 and draft_in(arguments[0]) is not None:
            return arguments[0]
        draft = self._draft(CONFIG, node)
        draft.fields.update(zip(("total_size", "formats", "buffer"), arguments, strict=False))
        return DraftValue(draft)

    def _method(
        self, name: str, receiver: cpp.Expression, arguments: Sequence[cpp.Expression]
    ) -> cpp.Expression | None:
        draft = draft_in(receiver)
        if draft is None:
            return self._receiving(name, receiver, arguments)
        if name in _SETTERS and arguments:
            draft.fields[_SETTERS[name]] = arguments[0]
            draft.field_guards[_SETTERS[name]] = self._extra_guards(draft)
            if name.endswith("_total_size") and len(arguments) > 1:
                draft.fields["total_size"] = arguments[1]
        elif name in _FIRST_SETTERS and arguments:
            draft.fields.setdefault(_FIRST_SETTERS[name], arguments[0])
        elif name == "set_page_size" and len(arguments) in (1, 2):
            draft.fields.setdefault("page_size", arguments[-1])
            if len(arguments) == 2:
                draft.fields.setdefault("page_index", arguments[0])
        elif name == "remote_index":
            draft.fields.setdefault("global_circular_buffer", cpp.Symbol("remote", "member"))
        else:
            return None
        return receiver

    def _receiving(
        self, name: str, receiver: cpp.Expression, arguments: Sequence[cpp.Expression]
    ) -> cpp.Expression | None:
        """`descriptor.format_descriptors.push_back(...)`: the list belongs to a draft, which is found by its text."""
        value = cpp.plain(receiver)
        if name not in ("push_back", "emplace_back") or not isinstance(value, cpp.Symbol) or len(arguments) != 1:
            return None
        owner, _, field = value.text.rpartition(".")
        pushed = draft_in(arguments[0])
        if pushed is not None and owner in self.interpreter.variables:
            pushed.fields.setdefault("program", self.interpreter.variables[owner])
            return None
        if field not in ("format_descriptors", "remote_format_descriptors", "compile_time_args", "dfb_bindings"):
            return None
        draft = draft_in(self.interpreter.variables.get(owner))
        if draft is None:
            return None
        before = cpp.plain(draft.fields.get(field, cpp.Items(())))
        listed = before.items if isinstance(before, cpp.Items) else ()
        draft.fields[field] = cpp.Items((*listed, arguments[0]))
        return cpp.Integer(0)

    def _add_program(self, arguments: Sequence[cpp.Expression]) -> cpp.Expression | None:
        draft = draft_in(arguments[2])
        if draft is None:
            return None
        self.made += 1
        draft.order = self.made
        names = ("program", "core_ranges", "", "global_circular_buffer")
        draft.fields.update((name, value) for name, value in zip(names, arguments, strict=False) if name)
        return arguments[2]

    def _create_cb(self, arguments: Sequence[cpp.Expression], node: Node) -> cpp.Expression:
        names = ("page_index", "program", "core_ranges", "page_size", "pages", "data_format", "buffer")
        draft = self._draft(CREATE_CB, node)
        draft.fields.update(zip(names, arguments, strict=False))
        draft.fields["total_size"] = cpp.Binary("*", draft.fields["pages"], draft.fields["page_size"])
        return cpp.Items((arguments[0], DraftValue(draft)))

    def _create_kernel(self, name: str, arguments: Sequence[cpp.Expression], node: Node) -> cpp.Expression:
        draft = self._draft(KERNEL, node)
        draft.fields.update(zip(("program", "kernel_source", "core_ranges"), arguments, strict=False))
        if name != "CreateKernel":
            draft.fields["kernel_source"] = cpp.Text("")
        config = cpp.plain(arguments[3])
        if isinstance(config, cpp.Record):
            for field, value in config.fields:
                if field in _COMPILE_TIME:
                    draft.fields[_COMPILE_TIME[field]] = value
        elif isinstance(config, cpp.Items) and config.items:
            draft.fields["compile_time_args"] = config.items[0]
        return DraftValue(draft)


def name_text(expression: cpp.Expression | None) -> str:
    """The string that a name object holds, else how it is called."""
    value = cpp.plain(expression) if expression is not None else None
    if isinstance(value, cpp.Items) and len(value.items) == 1:
        value = cpp.plain(value.items[0])
    if isinstance(value, cpp.Text):
        return value.value
    if isinstance(expression, cpp.NamedValue):
        return expression.name
    return value.text if isinstance(value, cpp.Symbol) else ""
