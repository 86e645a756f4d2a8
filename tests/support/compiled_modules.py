# SPDX-License-Identifier: Apache-2.0
"""Small TTNN modules, written as the compiler prints them."""

from __future__ import annotations

from collections.abc import Iterable

_KINDS = "ttcore.argument_type = #ttcore.argument_type"
_MAP = "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <{}>, memref<{}>{}>"


def tiles(rows: int, columns: int, dtype: str = "bf16", memory: str = "dram") -> str:
    """A layout of interleaved tiles."""
    memref = f"{-(-rows // 32)}x{-(-columns // 32)}x!ttcore.tile<32x32, {dtype}>, #{memory}"
    return _MAP.format("1x1", memref, "" if memory == "system_memory" else ", <interleaved>")


def rows_of(rows: int, columns: int, dtype: str = "bf16", memory: str = "system_memory") -> str:
    """A row-major layout."""
    placement = "" if memory == "system_memory" else ", <interleaved>"
    return _MAP.format("1x1", f"{rows}x{columns}x{dtype}, #{memory}", placement)


def height_shards(rows: int, columns: int, cores: int, ranges: str = "", grid_map: str = "") -> str:
    """Height shards in L1; ``ranges`` in today's grammar, ``grid_map`` in that before May 2026."""
    memref = f"{rows // 32 // cores}x{columns // 32}x!ttcore.tile<32x32, bf16>, #l1"
    more = f", core_ranges = <[{ranges}]>" if ranges else ""
    return _MAP.format(f"{cores}x1{grid_map}", memref, f", <height_sharded>{more}")


def module(layouts: dict[str, str], functions: Iterable[str], *, described: str = "") -> str:
    """Aliases, the two modules that wrap each other, the functions; locations behind them."""
    aliases = "\n".join(f"#{name} = {layout}" for name, layout in layouts.items())
    body = "\n".join(functions)
    return f"""\
#dram = #ttnn.buffer_type<dram>
#l1 = #ttnn.buffer_type<l1>
#loc = loc(unknown)
#system_memory = #ttnn.buffer_type<system_memory>
{described}{aliases}
module @SyncTensorsGraph.7 attributes {{ttcore.meshes = #ttcore.meshes<[<"mesh" = 1x1>]>}} {{
  ttcore.device_module {{
    builtin.module @SyncTensorsGraph.7 {{
{body}
    }} loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc1 = loc("dot.3")
#loc2 = loc("dot.3_workaround"(#loc1))
"""


def function(name: str, arguments: str, results: str, lines: Iterable[str], *, private: bool = False) -> str:
    head = f"      func.func {'private ' if private else ''}@{name}({arguments}) -> {results}"
    attributes = ' attributes {tt.function_type = "const_eval"}' if private else ""
    return "\n".join([f"{head}{attributes} {{", *(f"        {line}" for line in lines), "      } loc(#loc)"])


def free(value: str, type_text: str) -> str:
    return f'"ttnn.deallocate"({value}) <{{force = false}}> : ({type_text}) -> () loc(#loc)'


def linear_layer(rows: int = 64, inner: int = 128, columns: int = 256) -> str:
    """A weight from the host made ready once, a matrix product, a result cut into shards, and everything freed."""
    host, plain = f"tensor<{inner}x{columns}xbf16, #host>", f"tensor<{inner}x{columns}xbf16, #plain>"
    weight, given = f"tensor<{inner}x{columns}xbf16, #weight>", f"tensor<{rows}x{inner}xbf16, #given>"
    made, cut = f"tensor<{rows}x{columns}xbf16, #made>", f"tensor<{rows}x{columns}xbf16, #cut>"
    const_eval = function(
        "main_const_eval_0",
        f"%arg0: {host} loc(unknown)",
        weight,
        [
            '%0 = "ttnn.get_device"() <{mesh_shape = #ttnn<mesh_shape 1x1>}> : () -> !ttnn.device loc(#loc)',
            f'%1 = "ttnn.to_device"(%arg0, %0) : ({host}, !ttnn.device) -> {plain} loc(#loc)',
            f'%2 = "ttnn.to_layout"(%1) <{{layout = #ttnn.layout<tile>}}> : ({plain}) -> {weight} loc(#loc)',
            free("%1", plain),
            f"return %2 : {weight} loc(#loc)",
        ],
        private=True,
    )
    main = function(
        "main",
        f'%arg0: {given} {{{_KINDS}<input>, ttir.name = "args_0"}} loc("p0.1"), '
        f'%arg1: {host} {{{_KINDS}<parameter>, ttir.name = "layer.weight"}} loc("p1.2")',
        f"({cut} {{ttcore.shard_status = #ttcore.shard_status<unsharded>}})",
        [
            f"%0 = ttcore.load_cached(@main_const_eval_0, [%arg1]) : ({host}) -> {weight} loc(#loc)",
            free("%arg1", host),
            f'%1 = "ttnn.matmul"(%arg0, %0) <{{transpose_b = false}}> : ({given}, {weight}) -> {made} loc(#loc1)',
            free("%arg0", given),
            free("%0", weight),
            f'%2 = "ttnn.to_memory_config"(%1) : ({made}) -> {cut} loc(#loc2)',
            free("%1", made),
            f"return %2 : {cut} loc(#loc)",
        ],
    )
    layouts = {
        "host": rows_of(inner, columns),
        "plain": rows_of(inner, columns, memory="dram"),
        "weight": tiles(inner, columns),
        "given": tiles(rows, inner),
        "made": tiles(rows, columns),
        "cut": height_shards(rows, columns, rows // 32, f"#ttnn.core_range<(0,0), ({rows // 32 - 1},0)>"),
    }
    return module(layouts, [const_eval, main])
