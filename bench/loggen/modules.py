# SPDX-License-Identifier: Apache-2.0
"""Module dumps of the plug-in: nine stages per graph, printed to stderr when the graph is compiled.

Only the header line of a dump has a logger prefix. The TTNN stages define aliases for layouts before the module and
most of the locations after it, so a reader needs both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from random import Random
from typing import Protocol

from loggen.chips import Chip
from loggen.lines import ERR, Clock, plugin_line
from loggen.noise import Segment
from loggen.options import Options
from loggen.program import RETURN, Argument, Instruction, Program
from loggen.tensors import AnyType, TensorType

EARLY_STAGES = ("vhlo", "shlo", "shlo_frontend", "shlo_compiler", "shlo_set_mesh_attr", "shlo_compiler_cleaned")
ANNOTATED_FROM = "shlo_frontend"
END_LINE = b"------------------ END OF MLIR MODULE ------------------\n"
_CHUNK_BYTES = 1 << 16
_MAX_DENSE_LINE_BYTES = 8_000_000


class Compiled(Protocol):
    """What a dump needs to know of a graph."""

    module_name: str
    program: Program
    functions: list[Program]
    types_seen: list[Instruction]
    """Instructions that mention every type of `main`; all of them unless the program is streamed."""
    streamed: bool

    @property
    def const_evals(self) -> list[Program]: ...


class ModulePrinter:
    def __init__(self, options: Options, chip: Chip, clock: Clock) -> None:
        self._options = options
        self._chip = chip
        self._clock = clock
        self._dialect = "tt" if options.grammar == "tt" else "ttcore"
        self._dense_bytes_left = int(options.dense_mb * 1_000_000)
        self._dense_rng = Random(f"dense {options.seed}")

    def dump(self, graph: Compiled) -> Iterator[Segment]:
        """All stages of one graph, in compile order."""
        if self._options.modules == "none":
            return
        if self._options.modules == "all":
            for stage in EARLY_STAGES:
                yield from self._early(graph, stage)
            yield from self._ttir(graph)
            yield from self._ttnn(graph, "ttnn")
            if not graph.streamed:
                yield from self._ttnn(graph, "ttnn_runtime")
        else:
            yield from self._ttnn(graph, "ttnn")

    def _begin(self, stage: str) -> bytes:
        return plugin_line(self._clock, "module_builder.cc", 1087, "1", f"MLIR Module {stage}:")

    def _end(self) -> bytes:
        # Before 2025-10-13 a module simply ended where the next prefixed line began.
        return b"" if self._options.grammar == "tt" else END_LINE

    def _early(self, graph: Compiled, stage: str) -> Iterator[Segment]:
        annotated = EARLY_STAGES.index(stage) >= EARLY_STAGES.index(ANNOTATED_FROM)
        arguments = ", ".join(
            self._argument(a, layouts=None, annotated=annotated, stage=stage) for a in graph.program.arguments
        )
        results = self._result_types(graph, None)
        visibility = "public " if self._options.jax else ""
        yield ERR, self._begin(stage)
        yield (
            ERR,
            (
                "#loc = loc(unknown)\n"
                f"module @{graph.module_name} attributes {{mhlo.num_partitions = 1 : i32}} {{\n"
                f"  func.func {visibility}@main({arguments}) -> ({results}) {{\n"
            ).encode(),
        )
        if stage == "shlo":
            yield from self._dense_constants()
        lines = []
        for op in graph.types_seen:
            if op.kind != RETURN and op.results and op.op.startswith("ttnn.") and op.op != "ttnn.get_device":
                call = f'"{op.op.replace("ttnn.", "stablehlo.")}"() : ()'
                lines.append(f"    {_higher_results(op, call)} loc(#loc)\n")
        yield ERR, "".join(lines[:60]).encode()
        yield ERR, b"  } loc(#loc)\n} loc(#loc)\n" + self._end()

    def _dense_constants(self) -> Iterator[Segment]:
        """Constants print as one physical line each, however many megabytes they have."""
        number = 0
        while self._dense_bytes_left > 0:
            size = min(self._dense_bytes_left, _MAX_DENSE_LINE_BYTES)
            self._dense_bytes_left -= size
            yield ERR, f'    %cst_{number} = stablehlo.constant dense<"0x'.encode()
            elements = size // 4
            piece = self._dense_rng.randbytes(_CHUNK_BYTES // 2).hex().upper().encode()
            left = elements * 4
            while left > 0:
                yield ERR, piece[:left]
                left -= len(piece)
            yield ERR, f'"> : tensor<{elements}xbf16> loc(#loc)\n'.encode()
            number += 1

    def _ttir(self, graph: Compiled) -> Iterator[Segment]:
        arguments = ", ".join(
            self._argument(a, layouts=None, annotated=True, stage="ttir") for a in graph.program.arguments
        )
        yield ERR, self._begin("ttir")
        yield (
            ERR,
            (
                "#loc = loc(unknown)\n"
                + self._module_open(graph, "")
                + f"      func.func {self._public()}@main({arguments}) -> "
                f"({self._result_types(graph, None)}) attributes {{{self._forward()}}} {{\n"
            ).encode(),
        )
        hidden = ("ttnn.deallocate", "ttnn.get_device", "ttnn.to_layout", "ttnn.to_device", "ttnn.from_device")
        for op in graph.program if not graph.streamed else graph.types_seen:
            if op.op.startswith("ttnn.") and op.op not in hidden and op.results:
                operands = ", ".join(v.ssa for v in op.operands if isinstance(v.type, TensorType))
                inputs = ", ".join(_plain(v.type) for v in op.operands if isinstance(v.type, TensorType))
                call = f'"{op.op.replace("ttnn.", "ttir.")}"({operands}) : ({inputs})'
                yield ERR, f"        {_higher_results(op, call)} loc({op.loc.text})\n".encode()
        yield ERR, b"      } loc(#loc)\n    } loc(#loc)\n  } loc(#loc)\n} loc(#loc)\n" + self._end()

    def _ttnn(self, graph: Compiled, stage: str) -> Iterator[Segment]:
        layouts = _Aliases(graph)
        locations = _LocationTable(inline=graph.streamed)
        yield ERR, self._begin(stage)
        yield (
            ERR,
            self._header(layouts) + self._module_open(graph, f", {self._dialect}.system_desc = #system_desc").encode(),
        )
        for function in graph.const_evals + graph.functions:
            yield ERR, self._function_open(function, layouts)
            yield ERR, b"".join(self._body(function, layouts, locations)) + b"      } loc(#loc)\n"
        arguments = ", ".join(
            self._argument(a, layouts=layouts, annotated=True, stage=stage) for a in graph.program.arguments
        )
        yield (
            ERR,
            (
                f"      func.func {self._public()}@main({arguments}) -> ({self._result_types(graph, layouts)}) "
                f"attributes {{{self._forward()}}} {{\n"
            ).encode(),
        )
        for line in self._body(graph.program, layouts, locations):
            yield ERR, line
        yield ERR, b"      } loc(#loc)\n    } loc(#loc)\n  } loc(#loc)\n} loc(#loc)\n"
        yield ERR, "".join(locations.definitions).encode() + self._end()

    def _forward(self) -> str:
        return f'{self._dialect}.function_type = "forward_device"'

    def _public(self) -> str:
        return "public " if self._options.jax else ""

    def _module_open(self, graph: Compiled, extra: str) -> str:
        d = self._dialect
        mesh = f'{d}.meshes = #{d}.meshes<[<"mesh" = 1x{self._options.mesh_chips}>]>'
        common = (
            "mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, "
            f"mhlo.use_auto_spmd_partitioning = false, {mesh}"
        )
        return (
            f"module @{graph.module_name} attributes {{{common}}} {{\n"
            f"  {d}.device_module {{\n"
            f"    builtin.module @{graph.module_name} attributes {{{common}{extra}}} {{\n"
        )

    def _header(self, layouts: _Aliases) -> bytes:
        chip, d = self._chip, self._dialect
        system = (
            f'#system_desc = #{d}.system_desc<[{{role = host, target_triple = "x86_64-pc-linux"}}], '
            f"[{{arch = <{chip.mlir_arch}>, grid = {chip.core_rows}x{chip.core_columns}, "
            f"l1_size = {chip.l1_bytes_per_core}, "
            f"num_dram_channels = {chip.dram_banks}, dram_channel_size = {chip.dram_bytes_per_bank}, "
            f"l1_unreserved_base = {chip.l1_unreserved_base}, dram_unreserved_base = 32, "
            f"dram_unreserved_end = {chip.dram_bytes_per_bank}}}], [0], [1 : i32], [ 0x0x0x0]>\n"
        )
        buffers = "".join(f"#{name} = #ttnn.buffer_type<{name}>\n" for name in ("dram", "l1", "system_memory"))
        return (buffers + "#loc = loc(unknown)\n" + system + "".join(layouts.definitions)).encode()

    def _function_open(self, function: Program, layouts: _Aliases) -> bytes:
        arguments = ", ".join(f"{a.value.ssa}: {layouts.text(a.value.type)} loc(unknown)" for a in function.arguments)
        types = [layouts.text(v.type) for v in function.instructions[-1].operands]
        results = types[0] if len(types) == 1 else f"({', '.join(types)})"
        role = (
            "{const_eval}"
            if function.role == "const_eval"
            else f'{{{self._dialect}.function_type = "{function.role}"}}'
        )
        return f"      func.func private @{function.name}({arguments}) -> {results} attributes {role} {{\n".encode()

    def _body(self, program: Program, layouts: _Aliases, locations: _LocationTable) -> Iterator[bytes]:
        for op in program:
            if op.kind == RETURN:
                values = ", ".join(v.ssa for v in op.operands)
                types = ", ".join(layouts.text(v.type) for v in op.operands)
                text = f"return {values} : {types} loc(#loc)" if op.operands else "return loc(#loc)"
            else:
                text = op.text(layouts.text, locations.name(op), aliases=True)
            yield f"        {text}\n".encode()

    def _result_types(self, graph: Compiled, layouts: _Aliases | None) -> str:
        last = graph.types_seen[-1]
        status = f"{self._dialect}.shard_status = #{self._dialect}.shard_status<unsharded>"
        return ", ".join(f"{layouts.text(v.type) if layouts else _plain(v.type)} {{{status}}}" for v in last.operands)

    def _argument(self, a: Argument, *, layouts: _Aliases | None, annotated: bool, stage: str) -> str:
        type_ = layouts.text(a.value.type) if layouts else _plain(a.value.type)
        return f"{a.value.ssa}: {type_}{self._attributes(a, stage) if annotated else ''} loc({a.loc.text})"

    def _attributes(self, a: Argument, stage: str) -> str:
        d = self._dialect
        if self._options.jax and a.argument_type == "input" and not a.resident:
            return ""
        keys = []
        if a.local is not None and stage.startswith("shlo"):
            keys.append('mhlo.sharding = "{devices=[1,2]<=[2]}"')
            keys.append('sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>')
        keys.append(f"{d}.argument_type = #{d}.argument_type<{a.argument_type}>")
        if a.kv_cache:
            keys.append(f"{d}.kv_cache")
        if a.local is not None:
            keys.append(f"{d}.local_shape = #{d}<local_shape local_shape = {a.local.plain_text}>")
        status = "presharded" if a.local is not None else "unsharded"
        keys.append(f"{d}.shard_status = #{d}.shard_status<{status}>")
        if a.printed_name:
            keys.append(f'ttir.name = "{a.printed_name}"')
        return f" {{{', '.join(keys)}}}"


def _higher_results(op: Instruction, call: str) -> str:
    """`%5 = call -> type` or `%5:3 = call -> (types)`, without layouts."""
    ssa, types = op.results[0].ssa.partition("#")[0], [_plain(v.type) for v in op.results]
    if len(types) == 1:
        return f"{ssa} = {call} -> {types[0]}"
    return f"{ssa}:{len(types)} = {call} -> ({', '.join(types)})"


def _plain(type_: AnyType) -> str:
    return type_.plain_text if isinstance(type_, TensorType) else type_.text


class _Aliases:
    """`#ttnn_layoutN` for every layout the graph mentions."""

    def __init__(self, graph: Compiled) -> None:
        self._name_of: dict[str, str] = {}
        self._text_of: dict[AnyType, str] = {}
        self.definitions: list[str] = []
        for function in chain(graph.const_evals, graph.functions):
            for op in function.instructions:
                self._add(op)
            for argument in function.arguments:
                self.text(argument.value.type)
        for argument in graph.program.arguments:
            self.text(argument.value.type)
        for op in graph.types_seen:
            self._add(op)

    def _add(self, op: Instruction) -> None:
        for value in chain(op.operands, op.results):
            self.text(value.type)

    def text(self, type_: AnyType) -> str:
        known = self._text_of.get(type_)
        if known is None:
            known = type_.text
            if isinstance(type_, TensorType):
                layout = type_.aliased_layout
                name = self._name_of.get(layout)
                if name is None:
                    number = len(self._name_of)
                    name = self._name_of[layout] = f"#ttnn_layout{number or ''}"
                    self.definitions.append(f"{name} = {layout}\n")
                known = f"{type_.head}{name}>"
            self._text_of[type_] = known
        return known


class _LocationTable:
    """`#locN` names dealt out in the body; their definitions are printed after the module."""

    def __init__(self, *, inline: bool) -> None:
        self._inline = inline
        self._next = 1
        self._name_of: dict[str, str] = {}
        self.definitions: list[str] = []

    def name(self, op: Instruction) -> str:
        loc = op.loc
        if loc.text == "unknown":
            return "#loc"
        if self._inline:
            return loc.text
        known = self._name_of.get(loc.text)
        if known is None:
            text = (
                loc.pattern.format(*[self._define(child, child) for child in loc.children])
                if loc.children
                else loc.text
            )
            known = self._define(loc.text, text)
        return known

    def _define(self, key: str, text: str) -> str:
        known = self._name_of.get(key)
        if known is None:
            known = self._name_of[key] = f"#loc{self._next}"
            self._next += 1
            self.definitions.append(f"{known} = loc({text})\n")
        return known
