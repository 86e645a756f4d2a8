# SPDX-License-Identifier: Apache-2.0
"""Single steps for the library: open, allocate, call an operation, free, view the memory.

A request is a list of steps, small JSON objects; each has one answer, ``{"ok": true, ...}`` or ``{"ok": false, "error":
text}``, and a failed step does not stop the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from .device_monitor import CallRecord, DeviceMonitor
from .library import Library, describe_tensor
from .open_devices import OpenOptions, read_device_facts
from .protocol import MEMORIES, format_error
from .value_decoder import ValueDecoder

# ``start.py`` loads it under another name, where there is no ttmem.
if TYPE_CHECKING or __name__.startswith("ttmem."):
    from ttmem.twin import error_messages
else:
    import ttmem_error_messages as error_messages

Step = dict[str, Any]
Answer = dict[str, Any]

_MOST_PAGES = 1 << 32
"""The library counts pages in 32 bits: beyond, the count wraps and a huge tensor "fits" into a few bytes."""
_BITS = {"float32": 32, "int32": 32, "uint32": 32, "bfloat16": 16, "uint16": 16, "bfloat4_b": 4}
"""Bits per element other than 8, at least; for sizes that no device has."""
_PLAUSIBLE_BANK_BYTES = 1 << 40
"""A trace region larger than DRAM makes the bank size wrap to about 2^64 without an error."""


class DeviceSession:
    """An open device and the tensors that steps have named."""

    def __init__(self, library: Library, *, measure_programs: bool = True) -> None:
        self._library = library
        self._is_measuring = measure_programs
        self._monitor: DeviceMonitor | None = None
        self._is_mesh = self._is_connected = False
        self.tensors: dict[str, Any] = {}
        self.peaks: dict[str, int] = {}
        """Peaks in bytes per bank, also inside calls."""
        self.l1_worst = (0, 0, 0, 0)
        self.l1_problem = ""
        self.declined = ""
        """Reason why the last call's results were allocated instead of computed."""
        self._values = ValueDecoder(library, self.tensors, lambda: self.device)

    @property
    def library(self) -> Library:
        return self._library

    @property
    def monitor(self) -> DeviceMonitor:
        if self._monitor is None:
            raise ValueError("no device is open")
        return self._monitor

    @property
    def device(self) -> Any:
        return self.monitor.device

    def run(self, step: Step) -> Answer:
        kind = next(iter(step), "")
        action = getattr(self, f"_do_{kind}", None)
        if action is None:
            return {"ok": False, "error": f"unknown step '{kind}'", "kind": "ValueError"}
        try:
            answer: Answer = action(step)
        except Exception as error:
            answer = _encode_error(error)
        self._update_peaks()
        return {"ok": True, **answer}

    def do(self, step: Step) -> Answer:
        """Run a step without updating peaks; errors are raised."""
        answer: Answer = getattr(self, f"_do_{next(iter(step))}")(step)
        return answer

    def call_through(
        self, step: Step, call: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
    ) -> None:
        """Make a call (or an allocation) through ``call``, which records it, and keep its results."""
        if "alloc" in step:
            self._guard(step)
            self.tensors[step["alloc"]] = call(self._values.allocate, (step,), {})
        else:
            function = self._values.find_attribute(step["call"])
            declared = step.get("makes")
            self.declined = ""
            if isinstance(declared, list) and all(isinstance(one, dict) for one in declared):
                function = self._allow_declared(function, declared)
            self._keep(step.get("out"), call(function, *self._values.call_arguments(step)))

    def _allow_declared(self, function: Callable[..., Any], declared: list[Step]) -> Callable[..., Any]:
        """Wrap a call with declared results: where the library makes others, or refuses the call as written, allocate
        the declared ones. Lack of memory stays an error."""

        calls: list[bool] = []

        def call_or_allocate(*arguments: Any, **options: Any) -> Any:
            made: Any = None
            is_repeated = bool(calls)  # the call is repeated to measure its programs, until that fails
            calls.append(True)
            if is_repeated and not self.declined:
                return function(*arguments, **options)
            try:
                made = None if is_repeated else function(*arguments, **options)
            except Exception as error:
                if error_messages.is_about_memory(text := format_error(error)):
                    raise
                self.declined = f"not as written here: {_strip_location(text)}"
            if not self.declined and declared:
                found = [describe_tensor(tensor) for tensor in self._library.find_device_tensors(made)]
                if len(found) == len(declared) and all(map(_is_as_declared, found, declared)):
                    return made
                self.declined = f"makes {_list_specs(found)} here, the program says {_list_specs(declared)}"
            results = [self._values.allocate(one) for one in declared]
            return results[0] if len(results) == 1 else results

        return call_or_allocate

    def begin_case(self) -> None:
        self.peaks.clear()
        self.l1_worst, self.l1_problem = (0, 0, 0, 0), ""
        self._update_peaks()

    def summarize(self) -> Answer:
        """Return the peaks of the steps since ``begin_case``."""
        return {"peaks": self.peaks, "l1": self.l1_worst, "l1_problem": self.l1_problem}

    def end_case(self) -> bool:
        """Forget tensors and programs; return whether nothing is left, so that the next case starts from the same
        state.

        Programs may hold memory of their own (a reshape keeps a table in DRAM), and a cached one would hide the needs
        of a new one.
        """
        self.tensors.clear()
        if self._monitor is None:
            return False
        self._monitor.clear_programs()
        return not any(view.allocated for view in self._monitor.read_state().views)

    def close(self) -> None:
        self.tensors.clear()
        if self._monitor is not None:
            self._monitor.close()
            device, self._monitor = self._monitor.device, None
            ttnn = self._library.ttnn
            (ttnn.close_mesh_device if self._is_mesh else ttnn.close_device)(device)
            if self._is_connected:
                self._is_connected = False
                ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)

    def open(self, settings: dict[str, Any]) -> Answer:
        """Open the board: one chip, or the requested mesh."""
        self.close()
        ttnn, core = self._library.ttnn, self._library.core
        settings = dict(settings)
        mesh, dispatch = settings.pop("mesh", None), settings.pop("dispatch", None)
        arguments = OpenOptions(**settings).to_arguments()
        if dispatch:
            arguments["dispatch_core_config"] = self._dispatch(dispatch)
        self._is_mesh = mesh is not None
        if mesh is None:
            device = ttnn.open_device(device_id=0, **arguments)
        else:
            if prod(mesh) > 1:  # chips need connections to work together
                ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
                self._is_connected = True
            device = ttnn.open_mesh_device(ttnn.MeshShape(*mesh), **arguments)
        self._monitor = DeviceMonitor(self._library, device, measure_programs=self._is_measuring)
        if self._monitor.ledger.pools["DRAM"].bytes_per_bank > _PLAUSIBLE_BANK_BYTES:
            self.close()
            raise ValueError("the trace region is larger than DRAM: the library accepts it and wraps the bank size")
        return {
            **read_device_facts(self._library, device),
            "dram_alignment": core.device.get_dram_alignment(),
            "l1_alignment": core.device.get_l1_alignment(),
            "max_worker_l1": core.device.get_max_worker_l1_unreserved_size(),
        }

    def _dispatch(self, name: str) -> Any:
        device = self._library.ttnn.device
        if name == "eth":
            return device.DispatchCoreConfig(type=device.DispatchCoreType.ETH)
        axis = getattr(device.DispatchCoreAxis, name.upper())
        return device.DispatchCoreConfig(type=device.DispatchCoreType.WORKER, axis=axis)

    def _do_open(self, step: Step) -> Answer:
        return self.open(step["open"])

    def _do_alloc(self, step: Step) -> Answer:
        self._guard(step)
        self.tensors[step["alloc"]] = tensor = self._values.allocate(step)
        return self._describe(tensor)

    def _do_host(self, step: Step) -> Answer:
        """Create a host tensor, such as the weights of a convolution."""
        self.tensors[step["host"]] = self._values.create_host_tensor(step)
        return {}

    def _do_free(self, step: Step) -> Answer:
        tensor = self.tensors.pop(step["free"])
        if step.get("force", True):
            self._library.ttnn.deallocate(tensor)
        return {}

    def _do_view(self, step: Step) -> Answer:
        memory = step["view"]
        view = self._library.read_view(self.device, memory)
        answer: Answer = {"allocated": view.allocated, "free": view.free, "largest_free": view.largest_free}
        if step.get("blocks"):
            answer["blocks"] = self._library.read_block_table(self.device, memory)
        return answer

    def _do_call(self, step: Step) -> Answer:
        """Call any function of the library by name; see ``value_decoder`` for its arguments."""
        function = self._values.find_attribute(step["call"])
        arguments, options = self._values.call_arguments(step)
        self._update_peaks()  # arguments may have been made for the call, such as semaphores
        measured: Answer = {}

        def note(record: CallRecord) -> None:
            # Nothing of it is kept: an error's traceback would keep the tensors of this call alive with it.
            self._add_peaks(record)
            measured.update({"l1": record.l1, "programs": record.needs})
            if record.problem:
                measured["unmeasured"] = record.problem

        answer: Answer
        try:
            results = self.monitor.call(function, arguments, options, note)
            self._keep(step.get("out"), results)
            answer = {"results": [self._describe(tensor) for tensor in self._library.find_device_tensors(results)]}
        except Exception as error:
            answer = _encode_error(error)
        return {**answer, **measured}

    def _do_program(self, step: Step) -> Answer:
        """Run a program of circular buffers alone, to see their addresses; ``io`` must be an allocated tensor."""
        nodes = self._values.run_program(step["program"], self.tensors["io"])
        placed = [node["params"] for node in nodes if node["node_type"] == "circular_buffer_allocate"]
        return {"addresses": [int(params["address"]) for params in placed]}

    def _do_clear(self, step: Step) -> Answer:
        self.tensors.clear()
        if step["clear"] == "cache":
            self.monitor.clear_programs()
        return {}

    def _keep(self, out: Any, results: Any) -> None:
        """Name the results: one name, or one per item of a list; without a name they are dropped."""
        if isinstance(out, str):
            self.tensors[out] = results
        elif isinstance(out, list):
            self.tensors.update(zip(out, results, strict=False))

    def _describe(self, tensor: Any) -> Answer:
        return {
            **describe_tensor(tensor),
            "address": tensor.buffer_address(),
            "aligned_page_bytes": tensor.buffer_aligned_page_size(),
        }

    def _update_peaks(self) -> None:
        if self._monitor is None:
            return
        for memory, view in zip(MEMORIES, self._monitor.read_state().views, strict=True):
            self.peaks[memory] = max(self.peaks.get(memory, 0), view.allocated)

    def _add_peaks(self, record: CallRecord) -> None:
        for memory, top in record.effect.fullest.items():
            self.peaks[memory] = max(self.peaks.get(memory, 0), top.allocated)
        self.l1_worst = max(self.l1_worst, record.l1, key=sum)
        self.l1_problem = self.l1_problem or record.problem

    def _guard(self, step: Step) -> None:
        """Refuse in the library's own words what the library would get wrong."""
        shape: list[int] = [1, 1, *step["shape"]]
        *outer, rows, columns = shape
        if step.get("layout", "tile") == "tile":
            height, width = step.get("tile", (32, 32))
            pages, elements = prod(outer) * -(-rows // height) * -(-columns // width), height * width
        else:
            pages, elements = prod(outer) * rows, columns
        if pages < _MOST_PAGES or 0 in shape:
            return
        memory = step.get("memory", "DRAM")
        view = self._library.read_view(self.device, memory)
        total = pages * elements * _BITS.get(step["dtype"], 8) // 8
        per_bank = -(-total // max(view.banks, 1))
        sentence = error_messages.describe_out_of_memory(
            total, memory, view.banks, per_bank, view.total, view.allocated, view.free, view.largest_free
        )
        raise RuntimeError(f"{sentence}. Added by ttmem: the library counts pages in 32 bits and would have wrapped.")


def _strip_location(text: str) -> str:
    """Return the sentence of an error, without its location in the library."""
    _, _, said = text.partition("info:\n")
    return (said or text).strip().partition("\n")[0]


def _list_specs(forms: list[Any]) -> str:
    said = []
    for form in forms:
        shard = form.get("placement", "interleaved") != "interleaved" or "shard" in form
        words = ("x".join(map(str, form["shape"])), form["dtype"], form["layout"], form["memory"])
        said.append(" ".join([*words, "sharded"] if shard else words))
    return ", ".join(said) or "nothing"


def _is_as_declared(found: Answer, declared: Step) -> bool:
    shard = declared.get("shard")
    placement = f"{shard['kind']}_sharded" if shard else "interleaved"
    return (
        all(found[key] == declared[key] for key in ("dtype", "layout", "memory"))
        and prod(found["shape"]) == prod(declared["shape"])
        and found["placement"] == placement
        and (not shard or shard["kind"] == "nd" or found.get("shard") == list(shard["shape"]))
    )


def _encode_error(error: Exception) -> Answer:
    return {"ok": False, "error": format_error(error), "kind": type(error).__name__}
