# SPDX-License-Identifier: Apache-2.0
"""One compiled graph: its entry program `main`, the functions it calls, and the order of its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from loggen.layers import Dims, Layers
from loggen.locations import UNKNOWN, Loc, LocMaker
from loggen.options import Options
from loggen.program import CAPTURE, END_CAPTURE, Instruction, Program, ProgramBuilder, Value
from loggen.tensors import DEVICE, TRACE_ID, TensorType, TypeFactory
from loggen.weights import WeightBook, WeightSpec, get_device_attributes, weight

TIED_LAYERS = 4
"""A program of unique ops repeats these layers' weights, so that its signature does not grow with the log."""


class Graph:
    """Prefill (number 0) or decode (1, 2, ...): same weights by name, own dump, own const-eval numbering."""

    def __init__(self, options: Options, types: TypeFactory, dims: Dims, number: int) -> None:
        self.number = number
        self.decode = number > 0
        self.module_name = f"jit_step_{number}" if options.jax else f"SyncTensorsGraph.{19 + 14 * number}"
        self.program = Program("main", "entry")
        self.functions: list[Program] = []
        self.dims = replace(dims, sequence=1) if self.decode else dims
        self.streamed = options.unique_ops
        self._options = options
        self._types = types
        self._book = WeightBook(options, types, self.program, self._new_locs("const-eval"), graph_name=self.module_name)
        self._gate = self._build_gate() if options.has("call") and not options.trace else None
        if self.streamed:
            # A short pass over every distinct layer registers all arguments and const-eval functions.
            self.types_seen = list(self._instructions(min(options.layers, TIED_LAYERS + 1)))
            self.program.stream = lambda: self._instructions(options.layers)
        else:
            self.program.instructions = list(self._traced() if options.trace else self._instructions(options.layers))
            self.types_seen = self.program.instructions

    @property
    def const_evals(self) -> list[Program]:
        return list(self._book.const_evals.values())

    def _new_locs(self, salt: str) -> LocMaker:
        rng = Random(f"locations {self._options.seed} {self.number} {salt}")
        return LocMaker(rng, "jax" if self._options.jax else "torch", always_unique=self._options.unique_ops)

    def _layers(self, weights: _Cached | _Passed, locs: LocMaker) -> Layers:
        return Layers(
            self._options,
            self._types,
            self.dims,
            weights,
            locs,
            self.decode,
            self._gate,
            self._options.has("kv-cache") and not self._options.trace,
        )

    def _instructions(self, layers: int) -> Iterator[Instruction]:
        o, t, d, book = self._options, self._types, self.dims, self._book
        locs = self._new_locs("main")
        b = ProgramBuilder(t.dialect)
        weights = _Cached(o, t, d, book, locs, str(self.number))
        build = self._layers(weights, locs)
        ids = book.argument("ids", ("args_0",), t.host((d.batch, d.sequence), "si32"), "input")
        image = None
        if o.has("conv") and not self.decode:
            image = book.argument("image", ("args_1",), t.host((d.batch, 3, 224, 224)), "input")
        device = b.one("ttnn.get_device", (), DEVICE, get_device_attributes(o.mesh_chips), loc=locs.plain("get_device"))
        if self.decode and o.has("scalar"):
            # One more function in front: from here on every const-eval number means another function than in graph 0.
            weights.scalar(b)
        if image is not None:
            build.stem(b, image.value, device)
        x = self._embed(b, locs, weights, ids.value, device)
        yield from b.take()
        for i in range(layers):
            x = build.block(b, i, i % TIED_LAYERS if self.streamed else i, x, last=i == layers - 1)
            b.drop_cached()
            yield from b.take()
        self._finish(b, locs, build, x)
        yield from b.take()

    def _embed(self, b: ProgramBuilder, locs: LocMaker, weights: _Cached | _Passed, ids: Value, device: Value) -> Value:
        t, d = self._types, self.dims
        ids_type = t.dram((d.batch, d.sequence), "si32", tiled=False)
        on_device = b.one(
            "ttnn.to_device",
            (ids, device),
            ids_type,
            f"memory_config = {ids_type.memory_config}",
            loc=locs.make("to_device"),
        )
        table = weights.table(b)
        rows = b.one("ttnn.embedding", (on_device, table), t.dram(d.tokens_shape, tiled=False), loc=locs.make("gather"))
        b.deallocate(on_device)
        x = b.one(
            "ttnn.to_layout", (rows,), t.dram(d.tokens_shape), "layout = #ttnn.layout<tile>", loc=locs.make("gather")
        )
        b.deallocate(rows)
        # The same name twice with two shapes, as buffers of sibling modules have in real graphs.
        for shape in ((d.width,), (1, d.width)):
            (bias,) = weights.load(
                b, weight("model", "shared", "bias", shape=shape, key=f"shared {shape}", constant=True)
            )
            y = b.one("ttnn.add", (x, bias), t.dram(d.tokens_shape), loc=locs.make("add"))
            b.deallocate(x)
            weights.done(b, bias)
            x = y
        return x

    def _finish(self, b: ProgramBuilder, locs: LocMaker, build: Layers, x: Value) -> None:
        o, t = self._options, self._types
        logits = build.head(b, x)
        results = [self._pick(b, locs, logits)]
        if o.has("device-output"):
            results.append(x)
        else:
            b.deallocate(x)
        if o.has("cpu-call"):
            # Runs on the host: a FuncCall line whose op type is CpuOp, and no nested program.
            host = t.host(results[0].type.shape, "f32")  # type: ignore[union-attr]
            results[0] = b.op(
                "func.call",
                (results[0],),
                (host,),
                " {ttir.cpu_hoisted_call}",
                loc=locs.make("call"),
                op_type="CpuOp",
                head=f"func.call @cpu_hoisted_stablehlo_convert_{self.number:06x}({results[0].ssa})",
            )[0]
        b.finish(results)

    def _pick(self, b: ProgramBuilder, locs: LocMaker, logits: Value) -> Value:
        """Logits to a small host tensor, by way of a two-result sort."""
        t, d = self._types, self.dims
        shape = (d.batch, d.vocabulary)
        pooled = b.one(
            "ttnn.mean",
            (logits,),
            t.dram(shape, "f32"),
            "dim_arg = [1 : i32], keep_dim = false",
            loc=locs.make("reduce"),
        )
        b.deallocate(logits)
        if not self._options.has("multi-result"):
            host = b.one("ttnn.from_device", (pooled,), t.host(shape, "f32"), loc=locs.make("from_device"))
            b.deallocate(pooled)
            return host
        values, indices = b.op(
            "ttnn.sort",
            (pooled,),
            (t.dram(shape, "f32"), t.dram(shape, "si32")),
            "descending = true, dim = 1 : si8, stable = false",
            loc=locs.make("sort"),
        )
        b.deallocate(pooled, values)
        host = b.one("ttnn.from_device", (indices,), t.host(shape, "si32"), loc=locs.make("from_device"))
        b.deallocate(indices)
        return host

    def _build_gate(self) -> Program:
        """A function that blocks call: a nested program which is neither const-eval nor top level."""
        t, d = self._types, self.dims
        locs = self._new_locs("gate")
        type_ = t.dram((d.batch, d.sequence, d.hidden // d.chips))
        program = Program(f"gate_fn_{self.number}", "call")
        x = program.add_argument(type_)
        b = ProgramBuilder(t.dialect)
        active = b.one("ttnn.silu", (x,), type_, loc=locs.make("logistic"))
        gated = b.one("ttnn.multiply", (active, x), type_, loc=locs.make("multiply"))
        b.deallocate(active)
        b.finish((gated,))
        program.instructions = b.take()
        self.functions.append(program)
        return program

    def _traced(self) -> Iterator[Instruction]:
        """`main` that hands its whole body to a trace: captured in the first run, replayed without op lines later."""
        o, t, d, book = self._options, self._types, self.dims, self._book
        locs = self._new_locs("main")
        ids = book.argument("ids", ("args_0",), t.host((d.batch, d.sequence), "si32"), "input")
        b = ProgramBuilder(t.dialect)
        device = b.one("ttnn.get_device", (), DEVICE, get_device_attributes(o.mesh_chips), loc=locs.plain("get_device"))
        slot_type = t.dram((d.batch, d.sequence), "si32", tiled=False)
        body = Program("trace_0_main", "trace")
        slot = body.add_argument(slot_type)
        passed = _Passed(body, _Cached(o, t, d, book, locs, str(self.number)), b)
        logits_type = self._build_trace_body(body, slot, passed)
        slots = self._build_slots(slot_type)
        capture = self._build_capture(body, slot_type, ids.value, passed.values, logits_type)
        execute = self._build_execute()
        self.functions += [body, slots, capture, execute]
        operands = (device, ids.value, *passed.values)
        (logits,) = b.op(
            "ttnn.capture_or_execute_trace",
            operands,
            (logits_type,),
            f"allocate_slots_callee = @{slots.name}, capture_callee = @{capture.name}, "
            f"execute_callee = @{execute.name}, "
            f"operandSegmentSizes = array<i32: 1, {len(operands) - 1}, 0>",
            loc=UNKNOWN,
            kind=CAPTURE,
            callees=(slots, capture, execute),
        )
        host = b.one("ttnn.from_device", (logits,), t.host(logits_type.shape, "f32"), loc=locs.make("from_device"))
        if o.retained:
            b.deallocate(logits)
        b.finish((host,))
        yield from b.take()

    def _build_trace_body(self, body: Program, slot: Value, passed: _Passed) -> TensorType:
        o, t, d = self._options, self._types, self.dims
        locs = self._new_locs("trace")
        b = ProgramBuilder(t.dialect)
        build = self._layers(passed, locs)
        rows = b.one(
            "ttnn.embedding", (slot, passed.table(b)), t.dram(d.tokens_shape, tiled=False), loc=locs.make("gather")
        )
        x = b.one(
            "ttnn.to_layout", (rows,), t.dram(d.tokens_shape), "layout = #ttnn.layout<tile>", loc=locs.make("gather")
        )
        b.deallocate(rows)
        for i in range(o.layers):
            x = build.block(b, i, i, x, last=i == o.layers - 1)
        logits = build.head(b, x)
        b.deallocate(x)
        b.finish((logits,))
        body.instructions = b.take()
        assert isinstance(logits.type, TensorType)
        return logits.type

    def _build_slots(self, slot_type: TensorType) -> Program:
        program = Program("allocate_slots_trace_0_main", "trace")
        b = ProgramBuilder(self._types.dialect)
        device = b.one("ttnn.get_device", (), DEVICE, get_device_attributes(self._options.mesh_chips), loc=UNKNOWN)
        shape = "x".join(str(n) for n in slot_type.shape)
        attributes = (
            "dtype = #ttcore.supportedDataTypes<si32>, layout = #ttnn.layout<row_major>, "
            f"memory_config = {slot_type.memory_config}, shape = #ttnn.shape<{shape}>"
        )
        b.finish((b.one("ttnn.empty", (device,), slot_type, attributes, loc=UNKNOWN),))
        program.instructions = b.take()
        return program

    def _build_capture(
        self, body: Program, slot_type: TensorType, ids: Value, weights: list[Value], logits: TensorType
    ) -> Program:
        program = Program("run_and_capture_trace_0_main", "trace")
        slot, host = program.add_argument(slot_type), program.add_argument(ids.type)
        inner = [program.add_argument(w.type) for w in weights]
        b = ProgramBuilder(self._types.dialect)
        device = b.one("ttnn.get_device", (), DEVICE, get_device_attributes(self._options.mesh_chips), loc=UNKNOWN)
        b.op("ttnn.write_tensor", (host, slot), (), "blocking = false, cq_id = 0 : ui32", loc=UNKNOWN)
        (warm,) = b.call(body, (slot, *inner), (logits,), loc=UNKNOWN)
        b.deallocate(warm)
        trace = b.one("ttnn.begin_trace_capture", (device,), TRACE_ID, "cq_id = 0 : ui32", loc=UNKNOWN)
        (captured,) = b.call(body, (slot, *inner), (logits,), loc=UNKNOWN)
        b.op("ttnn.end_trace_capture", (device, trace), (), "cq_id = 0 : ui32", loc=UNKNOWN, kind=END_CAPTURE)
        b.op("ttnn.execute_trace", (device, trace), (), "blocking = false, cq_id = 0 : ui32", loc=UNKNOWN)
        b.finish((captured,))
        program.instructions = b.take()
        return program

    def _build_execute(self) -> Program:
        program = Program("execute_trace_0_main", "trace")
        device, trace = program.add_argument(DEVICE), program.add_argument(TRACE_ID)
        b = ProgramBuilder(self._types.dialect)
        b.op("ttnn.execute_trace", (device, trace), (), "blocking = false, cq_id = 0 : ui32", loc=UNKNOWN)
        b.finish(())
        program.instructions = b.take()
        return program


class _Cached:
    """Weights by load_cached, as every plain graph gets them."""

    def __init__(
        self, options: Options, types: TypeFactory, dims: Dims, book: WeightBook, locs: LocMaker, salt: str
    ) -> None:
        self._options = options
        self._types = types
        self._dims = dims
        self._book = book
        self._locs = locs
        self._salt = salt

    def _loc(self) -> Loc:
        return self._locs.plain("load_cached") if self._options.unique_ops else UNKNOWN

    def load(self, b: ProgramBuilder, *specs: WeightSpec) -> tuple[Value, ...]:
        callee, arguments, outputs = self._book.const_eval(specs)
        values = b.load_cached(callee, arguments, outputs, loc=self._loc())
        if self._options.retained:
            b.deallocate(*arguments)
        return values

    def done(self, b: ProgramBuilder, *values: Value) -> None:
        if self._options.retained:
            b.deallocate(*values)

    def scalar(self, b: ProgramBuilder) -> Value:
        callee, outputs = self._book.scalar(self._salt)
        return b.load_cached(callee, (), outputs, loc=self._loc())[0]

    def table(self, b: ProgramBuilder) -> Value:
        """The embedding table: a parameter that needs no preparation is uploaded by PJRT, with no op line at all."""
        shape = (self._dims.vocabulary, self._dims.width)
        spec = weight("model", "embed_tokens", "weight", shape=shape)
        if not self._options.has("resident-weight"):
            return self.load(b, spec)[0]
        type_ = self._types.dram(shape, tiled=False)
        return self._book.argument(
            spec.key, spec.path, type_, "parameter", resident=True, local=self._local(type_)
        ).value

    def cache(self, layer: int, which: str) -> Value:
        d = self._dims
        turned = (d.batch, d.local_heads, 64, d.cache_length)
        shape = turned if which == "key" else (d.batch, d.local_heads, d.cache_length, 64)
        path = ("past_key_values", str(layer), which)
        type_ = self._types.dram(shape)
        return self._book.argument(
            "/".join(path), path, type_, "input", resident=True, kv_cache=True, local=self._local(type_)
        ).value

    def position(self) -> Value:
        type_ = self._types.dram((1,), "si32", tiled=False)
        return self._book.argument(
            "cache_position", ("cache_position",), type_, "input", resident=True, local=self._local(type_)
        ).value

    def _local(self, type_: TensorType) -> TensorType | None:
        return type_ if self._options.local_shape else None


class _Passed:
    """Weights inside a trace: `main` loads them and passes them to the traced function."""

    def __init__(self, body: Program, outer: _Cached, outer_builder: ProgramBuilder) -> None:
        self._body = body
        self._outer = outer
        self._outer_builder = outer_builder
        self.values: list[Value] = []

    def _pass(self, value: Value) -> Value:
        self.values.append(value)
        return self._body.add_argument(value.type)

    def load(self, b: ProgramBuilder, *specs: WeightSpec) -> tuple[Value, ...]:
        return tuple(self._pass(v) for v in self._outer.load(self._outer_builder, *specs))

    def done(self, b: ProgramBuilder, *values: Value) -> None:
        """Arguments belong to the caller."""

    def scalar(self, b: ProgramBuilder) -> Value:
        return self._pass(self._outer.scalar(self._outer_builder))

    def table(self, b: ProgramBuilder) -> Value:
        return self._pass(self._outer.table(self._outer_builder))

    def cache(self, layer: int, which: str) -> Value:
        raise NotImplementedError("a traced graph keeps no cache")

    def position(self) -> Value:
        raise NotImplementedError("a traced graph keeps no cache")
