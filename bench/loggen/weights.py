# SPDX-License-Identifier: Apache-2.0
"""Weights of a graph and the const-eval functions that bring them to the device once.

A parameter sits in host memory; what occupies DRAM is the retained output of its const-eval function. The cache is
global and keyed by the function's hash, while function names restart at `main_const_eval_0` in every graph.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import prod

from loggen.locations import UNKNOWN, LocMaker, named
from loggen.options import Options
from loggen.program import Argument, Program, ProgramBuilder, Value
from loggen.tensors import DEVICE, TensorType, TypeFactory


@dataclass(frozen=True, slots=True)
class WeightSpec:
    key: str
    """Unique in the model; `name` may repeat, as it does in real graphs."""
    path: tuple[str, ...]
    shape: tuple[int, ...]
    argument_type: str = "parameter"
    shard_axis: int | None = None
    block_float: bool = False
    """Stored as bfp8 when the model is quantised; biases and norms are not."""


def weight(
    *path: str, shape: tuple[int, ...], key: str = "", constant: bool = False, shard_axis: int | None = None
) -> WeightSpec:
    return WeightSpec(
        key=key or "/".join(path),
        path=path,
        shape=shape,
        argument_type="constant" if constant else "parameter",
        shard_axis=shard_axis,
        block_float=len(shape) == 2,
    )


def get_device_attributes(chips: int) -> str:
    return f"mesh_offset = #ttnn<mesh_offset 0x0>, mesh_shape = #ttnn<mesh_shape 1x{chips}>"


class WeightBook:
    """Arguments and const-eval functions of one graph, made on first use."""

    def __init__(self, options: Options, types: TypeFactory, program: Program, locs: LocMaker, graph_name: str) -> None:
        self._options = options
        self._graph_name = graph_name
        self._types = types
        self._program = program
        self._locs = locs
        self._argument_of: dict[str, Argument] = {}
        self.const_evals: dict[str, Program] = {}
        self.outputs: dict[str, tuple[TensorType, ...]] = {}

    def argument(
        self,
        key: str,
        path: tuple[str, ...],
        type_: TensorType,
        argument_type: str,
        *,
        resident: bool = False,
        kv_cache: bool = False,
        local: TensorType | None = None,
    ) -> Argument:
        known = self._argument_of.get(key)
        if known is not None:
            return known
        number = len(self._program.arguments)
        ssa = f"%arg{number}"
        if self._options.jax:
            # JAX graphs carry no ttir.name; a reader falls back to the location, and here and there not even that.
            text = path[0] + "".join(f"['{part}']" for part in path[1:])
            loc = UNKNOWN if argument_type == "input" and not kv_cache else named(text)
            printed, name = "", loc.display or ssa
        else:
            loc = named(f"p{number}.{number * 3 + 1}")
            printed = ".".join(path)
            if self._options.grammar == "tt" and argument_type != "input":
                printed = "l__self___" + "_".join(path[1:])
            name = printed
        argument = Argument(
            Value(ssa, type_),
            name,
            argument_type,
            loc,
            printed_name=printed,
            resident=resident,
            kv_cache=kv_cache,
            local=local,
        )
        self._program.arguments.append(argument)
        self._argument_of[key] = argument
        return argument

    def weight_argument(self, spec: WeightSpec) -> Argument:
        local = None
        if self._options.local_shape:
            local = self._types.host(self._local_shape(spec))
        host = self._types.host(spec.shape)
        return self.argument(spec.key, spec.path, host, spec.argument_type, local=local)

    def const_eval(self, specs: tuple[WeightSpec, ...]) -> tuple[Program, tuple[Value, ...], tuple[TensorType, ...]]:
        """The function that prepares these weights, the arguments it takes and the types it returns."""
        key = "+".join(spec.key for spec in specs)
        arguments = tuple(self.weight_argument(spec).value for spec in specs)
        if key not in self.const_evals:
            self.const_evals[key], self.outputs[key] = self._build(key, specs)
        return self.const_evals[key], arguments, self.outputs[key]

    def scalar(self, salt: str) -> tuple[Program, tuple[TensorType, ...]]:
        """A const-eval function without arguments that makes a rank-0 tensor."""
        key = f"scalar {salt}"
        if key not in self.const_evals:
            program = self._new_program(key)
            b = ProgramBuilder(self._types.dialect)
            device = b.one(
                "ttnn.get_device",
                (),
                DEVICE,
                get_device_attributes(self._options.mesh_chips),
                loc=self._locs.plain("get_device"),
            )
            type_ = self._types.dram(())
            attributes = (
                "dtype = #ttcore.supportedDataTypes<bf16>, fill_value = 1.250000e-01 : f32, "
                f"layout = #ttnn.layout<tile>, memory_config = {type_.memory_config}, shape = #ttnn.shape<>"
            )
            value = b.one("ttnn.full", (device,), type_, attributes, loc=self._locs.plain("constant"))
            b.finish((value,))
            program.instructions = b.take()
            self.const_evals[key], self.outputs[key] = program, (type_,)
        return self.const_evals[key], self.outputs[key]

    def _new_program(self, content: str) -> Program:
        number = len(self.const_evals)
        if self._options.grammar == "tt":
            content = f"{self._graph_name} {content}"  # the cache became global only at the end of 2025
        digest = hashlib.sha256(content.encode()).hexdigest()
        return Program(f"{self._program.name}_const_eval_{number}", "const_eval", digest=digest)

    def _local_shape(self, spec: WeightSpec) -> tuple[int, ...]:
        if spec.shard_axis is None:
            return spec.shape
        return tuple(
            n // self._options.mesh_chips if axis == spec.shard_axis else n for axis, n in enumerate(spec.shape)
        )

    def _build(self, key: str, specs: tuple[WeightSpec, ...]) -> tuple[Program, tuple[TensorType, ...]]:
        program = self._new_program(f"{key} {[prod(spec.shape) for spec in specs]} {self._options.bfp8}")
        b = ProgramBuilder(self._types.dialect)
        device = b.one(
            "ttnn.get_device",
            (),
            DEVICE,
            get_device_attributes(self._options.mesh_chips),
            loc=self._locs.plain("get_device"),
        )
        results = [self._prepare(b, program, device, spec) for spec in specs]
        b.finish(results)
        program.instructions = b.take()
        return program, tuple(value.type for value in results)  # type: ignore[misc]

    def _prepare(self, b: ProgramBuilder, program: Program, device: Value, spec: WeightSpec) -> Value:
        types = self._types
        stem = spec.path[-2] + "_" + spec.path[-1]
        value = program.add_argument(types.host(spec.shape))
        shape = self._local_shape(spec)
        if shape != spec.shape:
            pieces = ", ".join("1" if n == whole else "2" for n, whole in zip(shape, spec.shape, strict=True))
            attributes = (
                f"shard_dims = array<i64: -1, {spec.shard_axis}>, "
                "shard_direction = #ttcore.shard_direction<full_to_shard>, "
                f"shard_shape = array<i64: {pieces}>, "
                "shard_type = #ttcore.shard_type<identity>"
            )
            value = b.one("ttnn.mesh_shard", (value, device), types.host(shape), attributes, loc=self._locs.plain(stem))
        uploaded = types.dram(shape, tiled=False)
        row_major = b.one(
            "ttnn.to_device",
            (value, device),
            uploaded,
            f"memory_config = {uploaded.memory_config}",
            loc=self._locs.plain(stem),
        )
        tiled = types.dram(shape)
        value = b.one("ttnn.to_layout", (row_major,), tiled, "layout = #ttnn.layout<tile>", loc=self._locs.plain(stem))
        b.deallocate(row_major)
        if self._options.bfp8 and spec.block_float:
            packed = types.dram(shape, storage="bfp_bf8")
            wide = value
            value = b.one(
                "ttnn.typecast",
                (wide,),
                packed,
                "dtype = #ttcore.supportedDataTypes<bfp_bf8>",
                loc=self._locs.plain(stem),
            )
            b.deallocate(wide)
        return value
