# SPDX-License-Identifier: Apache-2.0
"""Programs: instructions in the order the runtime executes them, and how each is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from loggen.locations import UNKNOWN, Loc
from loggen.tensors import AnyType, TensorType

# What an instruction does to memory. Plain integers: the executor compares them once per printed op.
COMPUTE, VIEW, DEALLOCATE, LOAD_CACHED, CALL, CAPTURE, END_CAPTURE, RETURN, FAIL = range(9)

_OP_TYPES = {
    "func.call": "FuncCallOp",
    "ttcore.load_cached": "LoadCachedOp",
    "ttnn.add": "EltwiseBinaryOp",
    "ttnn.multiply": "EltwiseBinaryOp",
    "ttnn.gelu": "EltwiseUnaryOp",
    "ttnn.relu": "EltwiseUnaryOp",
    "ttnn.silu": "EltwiseUnaryOp",
    "ttnn.max_pool2d": "Pool2dOp",
    "ttnn.mean": "ReductionOp",
    "ttnn.zeros": "NamedFullOp",
    "ttnn.rms_norm": "RMSNormOp",
    "ttnn.split_query_key_value_and_split_heads": "SplitQueryKeyValueAndSplitHeadsOp",
}


def op_type_of(op: str) -> str:
    """The flatbuffer union name that block headers carry; it is not derivable from the MLIR name for all ops."""
    return _OP_TYPES.get(op) or "".join(word.capitalize() for word in op.partition(".")[2].split("_")) + "Op"


class Value:
    """An SSA value of one program. `%N` restarts in every program, so identity is the object, not the text."""

    __slots__ = ("ssa", "type")

    def __init__(self, ssa: str, type_: AnyType) -> None:
        self.ssa = ssa
        self.type = type_


@dataclass(slots=True)
class Instruction:
    kind: int
    op: str
    op_type: str
    head: str
    """From the op name to the closing bracket of its operands."""
    attributes: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    loc: Loc
    callees: tuple[Program, ...] = ()
    frees: tuple[Value, ...] = ()
    """Operands the op itself gives back (conv2d with deallocate_activation): no deallocate line follows."""
    drops: tuple[Value, ...] = ()
    """Values nobody names again; lets an endless program run in constant memory."""
    line: bytes | None = None
    """The rendered log line, kept while the program is kept."""
    mark: str = ""
    """`regressed` on the op whose output `--regress` enlarges."""

    def text(self, type_text: Callable[[AnyType], str], loc_text: str, *, aliases: bool = False) -> str:
        results = self.results
        prefix = ""
        if results:
            first = results[0].ssa
            prefix = f"{first} = " if len(results) == 1 else f"{first.partition('#')[0]}:{len(results)} = "
        attributes = self.attributes
        if "\0" in attributes:
            attributes = _resolve_buffers(attributes, aliases=aliases)
        inputs = ", ".join([type_text(v.type) for v in self.operands])
        if len(results) == 1:
            outputs = type_text(results[0].type)
        else:
            outputs = f"({', '.join([type_text(v.type) for v in results])})"
        return f"{prefix}{self.head}{attributes} : ({inputs}) -> {outputs} loc({loc_text})"


def _resolve_buffers(attributes: str, *, aliases: bool) -> str:
    """`<dram>` in op lines, `#dram` in dumps: a runtime line is printed outside a module and has no aliases."""
    pieces = attributes.split("\0")
    for i in range(1, len(pieces), 2):
        pieces[i] = f"#{pieces[i]}" if aliases else f"<{pieces[i]}>"
    return "".join(pieces)


def inline_type(type_: AnyType) -> str:
    return type_.text


@dataclass(frozen=True, slots=True)
class Argument:
    value: Value
    name: str
    """What a reader should call it: ttir.name, else the location's name, else the SSA name."""
    argument_type: str
    loc: Loc
    printed_name: str = ""
    """`ttir.name`; JAX graphs often print none."""
    resident: bool = False
    """Lives on the device before the program starts: uploaded with no op line."""
    kv_cache: bool = False
    local: TensorType | None = None
    """What one chip holds when the tensor is sharded over a mesh."""


@dataclass(slots=True)
class Program:
    name: str
    role: str
    """`entry`, `const_eval`, `call` or `trace`."""
    arguments: list[Argument] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    stream: Callable[[], Iterator[Instruction]] | None = None
    """Set instead of `instructions` when the program is too long to keep."""
    digest: str = ""

    def __iter__(self) -> Iterator[Instruction]:
        return self.stream() if self.stream is not None else iter(self.instructions)

    def add_argument(self, type_: AnyType) -> Value:
        """An argument of an inner function: no name, no attributes."""
        value = Value(f"%arg{len(self.arguments)}", type_)
        self.arguments.append(Argument(value, value.ssa, "", UNKNOWN))
        return value


class ProgramBuilder:
    """Appends instructions with growing SSA numbers; `take` hands over what was built so far."""

    def __init__(self, dialect: str = "ttcore") -> None:
        self._dialect = dialect
        """`tt` in logs before 2025-06-17."""
        self._next_ssa = 0
        self._built: list[Instruction] = []
        self._undropped: list[Value] = []

    def op(
        self,
        op: str,
        operands: Sequence[Value],
        results: Iterable[AnyType],
        attributes: str = "",
        *,
        loc: Loc,
        kind: int = COMPUTE,
        head: str = "",
        op_type: str = "",
        callees: tuple[Program, ...] = (),
        frees: tuple[Value, ...] = (),
        mark: str = "",
    ) -> tuple[Value, ...]:
        op_type = op_type or op_type_of(op)
        result_types = tuple(results)
        values: tuple[Value, ...] = ()
        if result_types:
            number = self._next_ssa
            self._next_ssa += 1
            if len(result_types) == 1:
                values = (Value(f"%{number}", result_types[0]),)
            else:
                values = tuple([Value(f"%{number}#{i}", t) for i, t in enumerate(result_types)])
        if self._dialect != "ttcore":
            op, head, attributes = (text.replace("ttcore.", f"{self._dialect}.") for text in (op, head, attributes))
        if not head:
            head = f'"{op}"({", ".join([v.ssa for v in operands])})'
        self._built.append(
            Instruction(
                kind,
                op,
                op_type,
                head,
                f" <{{{attributes}}}>" if attributes and attributes[0] != " " else attributes,
                tuple(operands),
                values,
                loc,
                callees,
                frees,
                mark=mark,
            )
        )
        return values

    def one(self, op: str, operands: Sequence[Value], result: AnyType, attributes: str = "", *, loc: Loc) -> Value:
        return self.op(op, operands, (result,), attributes, loc=loc)[0]

    def view(self, op: str, operand: Value, result: AnyType, attributes: str = "", *, loc: Loc) -> Value:
        """An op whose result shares its operand's buffer."""
        return self.op(op, (operand,), (result,), attributes, loc=loc, kind=VIEW)[0]

    def deallocate(self, *values: Value) -> None:
        """Explicit frees; each carries the location of the last op, as the compiler's pass does."""
        for value in values:
            loc = self._built[-1].loc if self._built else UNKNOWN
            self.op("ttnn.deallocate", (value,), (), "force = false", loc=loc, kind=DEALLOCATE)

    def load_cached(
        self, callee: Program, operands: Sequence[Value], results: Iterable[AnyType], *, loc: Loc
    ) -> tuple[Value, ...]:
        names = ", ".join([v.ssa for v in operands])
        values = self.op(
            "ttcore.load_cached",
            operands,
            results,
            loc=loc,
            kind=LOAD_CACHED,
            head=f"ttcore.load_cached(@{callee.name}, [{names}])",
            callees=(callee,),
        )
        self._undropped.extend(values)
        return values

    def call(
        self, callee: Program, operands: Sequence[Value], results: Iterable[AnyType], *, loc: Loc
    ) -> tuple[Value, ...]:
        names = ", ".join([v.ssa for v in operands])
        return self.op(
            "func.call",
            operands,
            results,
            loc=loc,
            kind=CALL,
            head=f"func.call @{callee.name}({names})",
            callees=(callee,),
        )

    def finish(self, results: Sequence[Value]) -> None:
        self.op("return", results, (), loc=UNKNOWN, kind=RETURN)

    def drop_cached(self) -> None:
        """Forget the load_cached results so far at the last instruction (they stay in the cache)."""
        if self._undropped and self._built:
            self._built[-1].drops = tuple(self._undropped)
        self._undropped.clear()

    def take(self) -> list[Instruction]:
        built, self._built = self._built, []
        return built
