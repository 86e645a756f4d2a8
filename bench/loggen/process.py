# SPDX-License-Identifier: Apache-2.0
"""One process from start to end: compile, upload, run, leak, fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from loggen.account import Account, OutOfMemoryError
from loggen.chips import CHIPS
from loggen.executor import Executor, Output
from loggen.failing import FailingGraph, allocator_failure, failure_of
from loggen.failures import FailureText, ProgramFailed, ordinary_exception, report
from loggen.graph import Graph
from loggen.layers import draw_dims
from loggen.lines import ERR, MARK, OUT, PY, Clock, plugin_line, runtime_prefix
from loggen.locations import LocMaker
from loggen.modules import Compiled, ModulePrinter
from loggen.noise import Noise, Segment
from loggen.options import ALLOCATOR_FAILURES, Options
from loggen.program import FAIL, Argument, Instruction
from loggen.tensors import TensorType, TypeFactory
from loggen.truth import Run

_PREFILL_EVERY = 8


class GenerationError(RuntimeError):
    """The simulated model cannot do what the options ask, said in one line."""


class Process:
    """Yields the process's output; `truth` is complete when the output is exhausted."""

    def __init__(self, options: Options, position: Callable[[], int]) -> None:
        self._options = options
        self._position = position
        self._chip = CHIPS[options.arch]
        self._types = TypeFactory(self._chip, options.grammar)
        self._account = Account(self._chip, with_trace_region=options.trace)
        self._clock = Clock()
        self._noise = Noise(options, Random(f"noise {options.seed}"), self._clock)
        self._modules = ModulePrinter(options, self._chip, self._clock)
        self._executor = Executor(options, self._account, self._noise, self._failing)
        dims = draw_dims(options.seed, options.mesh_chips)
        self._graphs = [Graph(options, self._types, dims, number) for number in range(options.graphs)]
        self._compiled: set[str] = set()
        self._runs_started = 0
        self._all_numbers: dict[str, Any] | None = None
        self.final_failure: FailureText | None = None

    def output(self) -> Iterator[Output]:
        try:
            yield from self._preamble()
            while self._wants_another_run():
                yield from self._one_run(self._graphs[self._graph_number(self._runs_started)])
            if self._options.oom is not None:
                yield from self._fail_at_last()
        except OutOfMemoryError as error:
            raise GenerationError(
                f"the simulated device is full ({error}); use fewer layers, a smaller leak or --arch blackhole"
            ) from error

    def _preamble(self) -> Iterator[Segment]:
        yield PY, b"python model.py\n"
        if self._options.modules != "none":
            yield ERR, plugin_line(self._clock, "client_instance.cc", 77, "1", "ClientInstance::PJRT_Client_Create")
        if not self._options.ops_off:
            grid = f"Device grid size = {{ {self._chip.core_rows}, {self._chip.core_columns} }}\n"
            yield OUT, runtime_prefix("Always", "DEBUG", ansi=self._options.ansi) + grid.encode()
        if self._options.mesh_chips > 1:
            info = runtime_prefix("Always", "INFO", ansi=self._options.ansi)
            yield OUT, info + f"remapped mesh device shape [1, {self._options.mesh_chips}]\n".encode()
        if self._options.bad_utf8:
            yield PY, b"locale: \xc3\x28 \xa0\xa1 \xf0\x28\x8c\xbc is not UTF-8\n"

    def _graph_number(self, run: int) -> int:
        """Every graph once, then decode steps with a new prefill now and then."""
        count = self._options.graphs
        if run < count:
            return run
        return 0 if count == 1 or run % _PREFILL_EVERY == 0 else 1 + run % (count - 1)

    def _wants_another_run(self) -> bool:
        o = self._options
        if self._runs_started < o.graphs or (o.exception_then_run and self._runs_started < 2):
            return True
        if o.runs is not None:
            return self._runs_started < o.runs
        if o.ops is not None:
            return self._executor.executed < o.ops
        return self._position() < (o.target_bytes or 0)

    def _compile(self, graph: Compiled) -> Iterator[Segment]:
        if graph.module_name not in self._compiled:
            self._compiled.add(graph.module_name)
            yield from self._modules.dump(graph)
            self._executor.upload(graph.program)

    def _one_run(self, graph: Compiled) -> Iterator[Output]:
        o, number = self._options, self._runs_started
        self._runs_started += 1
        yield from self._compile(graph)
        if o.modules != "none":
            yield (
                ERR,
                plugin_line(
                    self._clock, "executable_instance.cc", 311, "1", "FlatbufferLoadedExecutableInstance::Execute"
                ),
            )
        run = Run(
            number=number,
            graph=graph.number if isinstance(graph, Graph) else len(self._graphs),
            program=graph.program.name,
            first_index=self._executor.executed,
            dram_bytes_before=self._account.dram.allocated,
            warmup=o.warmup and number == 0,
        )
        if o.exception_then_run and number == 0:
            # The second function of the first graph: it fails while nested, and must be evaluated again later.
            self._executor.fail_const_eval = 2
        try:
            yield from self._executor.submit(graph.program, run)
        except ProgramFailed as failed:
            final = self.final_failure is not None
            yield from report(failed.failure, self._clock, ansi=o.ansi, with_traceback=not (final and o.pytest_capture))
            self._record(failed.failure, final=final)
        else:
            suffix = " (warm-up)" if run.warmup else ""
            yield PY, f"Got output shape: torch.Size([1, 1000]) run {number}{suffix}\n".encode()
        self._executor.release_outputs()
        if o.leak_bytes_per_bank_per_run:
            self._executor.leak(o.leak_bytes_per_bank_per_run)
        yield MARK, lambda offset: setattr(run, "byte_end", offset)

    def _failing(self, op: Instruction) -> FailureText:
        """Asked by the executor at the moment of failure, when the account holds what the text must say."""
        if op.kind != FAIL:
            return ordinary_exception()
        self.final_failure, self._all_numbers = failure_of(op, self._options, self._account, self._chip)
        return self.final_failure

    def _fail_at_last(self) -> Iterator[Output]:
        o = self._options
        assert o.oom is not None
        if o.oom != "outside":
            locs = LocMaker(Random(f"failing {o.seed}"), "torch", always_unique=True)
            name = "jit_last" if o.jax else "SyncTensorsGraph.907"
            yield from self._one_run(FailingGraph(o, self._types, self._account, locs, name))
            return
        per_bank = self._account.dram.largest_free + 4_096_000
        banks = self._account.dram.banks
        self.final_failure, self._all_numbers = allocator_failure(
            o.oom, self._account, "DRAM", per_bank // 4096 * 4096 * banks, banks, per_bank // 4096 * 4096
        )
        yield from report(self.final_failure, self._clock, ansi=o.ansi, with_traceback=not o.pytest_capture)
        self._record(self.final_failure, final=True)

    def _record(self, failure: FailureText, *, final: bool) -> None:
        recorder, last = self._executor.recorder, self._executor.last
        outside = self._options.oom == "outside" and final
        blamed = last if last is not None and not outside and not self._options.ops_off else None
        where = {
            "index": blamed[0] if blamed else None,
            "op": blamed[1].op if blamed else None,
            "loc": blamed[1].loc.display if blamed else None,
            "run": None if outside else self._runs_started - 1,
        }
        entry = where | {
            "kind": failure.kind,
            "class": failure.failure_class,
            "memory": failure.memory,
            "message": failure.message,
            "numbers": failure.numbers,
            "core_range": failure.core_range,
        }
        if not final:
            recorder.exceptions.append(entry)
            return
        recorder.failure = entry
        if self._options.oom in ALLOCATOR_FAILURES:
            assert self._all_numbers is not None
            recorder.oom = where | self._all_numbers

    def truth(self) -> dict[str, Any]:
        o = self._options
        truth: dict[str, Any] = {"arch": o.arch, "seed": o.seed, "executed_ops": self._executor.executed}
        truth |= self._executor.recorder.as_dict()
        truth["weights"] = _weights(self._graphs)
        truth["graphs"] = [
            {
                "name": graph.program.name,
                "module": graph.module_name,
                "ops": None if graph.streamed else len(graph.program.instructions) - 1,
                "layers": o.layers,
                "args": len(graph.program.arguments),
            }
            for graph in self._graphs
        ]
        runs = self._executor.recorder.runs
        truth["growth"] = {
            "leak_bytes_per_bank_per_run": self._account.dram.taken(o.leak_bytes_per_bank_per_run)
            if o.leak_bytes_per_bank_per_run
            else 0,
            "dram_bytes_before_run": [run.dram_bytes_before for run in runs],
        }
        truth["foreign_lines"] = self._noise.foreign_lines
        truth["glued_bars"] = self._noise.glued_bars
        return truth


def _weights(graphs: list[Graph]) -> dict[str, Any]:
    """Parameters and constants: per graph as registered, and each (name, shape, dtype) once over all graphs."""
    per_graph = [
        [a for a in graph.program.arguments if a.argument_type in ("parameter", "constant")] for graph in graphs
    ]
    distinct: dict[tuple[str, tuple[int, ...], str], dict[str, Any]] = {}
    for argument in (a for arguments in per_graph for a in arguments):
        type_ = argument.value.type
        assert isinstance(type_, TensorType)
        local = argument.local or type_
        distinct.setdefault(
            (argument.name, type_.shape, type_.element),
            {
                "name": argument.name,
                "shape": list(type_.shape),
                "dtype": type_.element,
                "bytes": _logical(type_),
                "argument_type": argument.argument_type,
                "local_shape": list(local.shape),
                "local_bytes": _logical(local),
            },
        )
    main = per_graph[0]
    return {
        "count": sum(len(arguments) for arguments in per_graph),
        "bytes": sum(_argument_bytes(a) for arguments in per_graph for a in arguments),
        "main_graph_count": len(main),
        "main_graph_bytes": sum(_argument_bytes(a) for a in main),
        "distinct_count": len(distinct),
        "distinct_bytes": sum(entry["bytes"] for entry in distinct.values()),
        "distinct_local_bytes": sum(entry["local_bytes"] for entry in distinct.values()),
        "entries": list(distinct.values()),
    }


def _argument_bytes(argument: Argument) -> int:
    assert isinstance(argument.value.type, TensorType)
    return _logical(argument.value.type)


def _logical(type_: TensorType) -> int:
    return type_.logical_sixteenths // 16
