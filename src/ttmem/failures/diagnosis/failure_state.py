# SPDX-License-Identifier: Apache-2.0
"""Facts about one failure, under the names that the expressions of the knowledge use.

From the message: its figures and words (``bytes_per_bank``, ``core_range``). From where it points: ``architecture``,
``l1_base``, ``trace_region_bytes_per_bank`` (``builds``), ``pages``, ``tensor_dtype`` (``tensor_guess``). From the text
around it: ``operation``, ``setting_l1_small_size`` (``context``). From a profile: ``live_*``. Last, quantities that the
knowledge derives from these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ttmem.failures.diagnosis.board_guess import BoardGuess, guess_board, list_l1_bases, parse_core_range
from ttmem.failures.diagnosis.tensor_guess import TensorGuess, format_shape, guess_tensor
from ttmem.failures.failure import Failure, find_largest_bank
from ttmem.failures.knowledge.tables import Quantity, Value, evaluate, find_rules
from ttmem.failures.text.context import Context, KnownTensor, find_family, is_without_result, places_result
from ttmem.hardware import ARCHITECTURES, Architecture

_LARGEST_QUANTUM_BYTES = 64


@dataclass(frozen=True, slots=True)
class LiveTensor:
    """A tensor that was on the device when it failed, as a profile knows it."""

    name: str
    memory: str
    bytes_per_bank: int
    shape: tuple[int, ...] = ()
    dtype: str = ""
    layout: str = ""
    is_weight: bool = False
    is_input: bool = False
    """The failing operation reads it."""
    is_output: bool = False
    """The failing operation made it, as its result or for the time of its run."""
    is_idle: bool = False
    """No operation from the failing one on reads it, as far as the source shows."""
    producer: str = ""
    producer_index: int | None = None
    location: str = ""
    """Where the program's source makes it."""
    line: int | None = None
    """Of the producer in the log."""
    address: int | None = None
    """Captures know it, logs do not."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A failure with everything that surrounds it."""

    failure: Failure
    names: dict[str, Value]
    board: BoardGuess
    tensor: TensorGuess | None
    context: Context
    alignment_bytes: int
    """Of pages in the memory concerned."""
    quantum_bytes: int
    """In which a pool is handed out; the larger one where the chip is not known, so that no fit is promised."""
    live: tuple[LiveTensor, ...] = ()
    """In the memory concerned."""

    def find_repeated(self) -> list[LiveTensor]:
        """The largest set of equal tensors that one line made and that the failing operation does not read.

        Two or more of them, weights aside: a loop keeps what it made in earlier turns.
        """
        sets: dict[tuple[str, tuple[int, ...], str], list[LiveTensor]] = {}
        for tensor in self.live:
            if tensor.location and tensor.producer and not (tensor.is_weight or tensor.is_input or tensor.is_output):
                sets.setdefault((tensor.location, tensor.shape, tensor.dtype), []).append(tensor)
        several = [found for found in sets.values() if len(found) > 1]
        return max(several, key=lambda found: sum(tensor.bytes_per_bank for tensor in found), default=[])

    def list_placed(self) -> list[tuple[int, LiveTensor]]:
        """The live tensors whose addresses are known, from the lowest up."""
        found = [(tensor.address, tensor) for tensor in self.live if tensor.address is not None]
        return sorted(found, key=lambda entry: entry[0])

    def number(self, name: str) -> int | None:
        """A figure, or None where it is not known."""
        value = self.names.get(name)
        return value if isinstance(value, int) else None


def build_situation(
    failure: Failure,
    *,
    board: str | None = None,
    context: Context | None = None,
    live: Sequence[LiveTensor] = (),
    tensors: Sequence[KnownTensor] = (),
) -> Situation:
    """Put together what the message says with what it points at."""
    context = context or Context()
    guessed = guess_board(failure, board=board, hints=context.hints)
    # The same in L1 everywhere, the chip's own in DRAM.
    chip = ARCHITECTURES.get(guessed.architecture or "")
    alignment = (chip or ARCHITECTURES.find("wormhole")).page_alignment_bytes(in_dram=failure.memory != "L1")
    quantum = chip.quantum_bytes if chip else _LARGEST_QUANTUM_BYTES
    there = tuple(tensor for tensor in live if tensor.memory == failure.memory)
    tensor = guess_tensor(failure, alignment_bytes=alignment, known=[*tensors, *context.tensors])
    sources: tuple[Mapping[str, Value | None], ...] = (
        {"failure_class": failure.failure_class, "template": failure.template, "memory": failure.memory},
        failure.texts,
        guessed.numbers,
        failure.numbers,
        _name_board(guessed, chip, failure.numbers.get("l1_buffer_address")),
        _name_cores(failure),
        _name_context(context),
        _name_tensor(tensor),
        _name_live(there),
        {"largest_bank_bytes": find_largest_bank(failure.memory, failure.numbers.get("banks"))},
    )
    names = {name: value for source in sources for name, value in source.items() if value is not None}
    for quantity in find_rules(Quantity, failure.failure_class):
        value = evaluate(quantity.value, names)
        if value is not None:
            names[quantity.name] = value
    situation = Situation(failure, names, guessed, tensor, context, alignment, quantum, there)
    if situation.find_repeated():
        names["repeats"] = "in a loop"
    return situation


def _name_board(board: BoardGuess, chip: Architecture | None, lowest_tensor: int | None) -> dict[str, Value | None]:
    names: dict[str, Value | None] = {"board": board.boards[0] if len(board.boards) == 1 else None}
    if chip is not None:
        # A tensor is above the base: bases that one contradicts are none of this build's.
        known = list(list_l1_bases(chip))
        bases = [base for base in known if lowest_tensor is None or base <= lowest_tensor] or [min(known)]
        exact = board.numbers.get("l1_base_address")
        if exact is not None and lowest_tensor is not None and exact > lowest_tensor:
            exact = None
        # Without a better sign the newest published release: the picture needs one, and says how far it may be off.
        base = exact or board.numbers.get("whole_tiles_base_address")
        base = base or (bases[0] if bases[0] == known[0] else max(bases))
        names["l1_base"] = base
        names["l1_base_error"] = 0 if exact else max(base - min(bases), max(bases) - base)
        names["worst_l1_base"] = exact or max(bases)
    return {**names, "architecture": board.architecture}


def _name_cores(failure: Failure) -> dict[str, int]:
    cores = parse_core_range(failure.texts.get("core_range"))
    named = {"range_cores": "cores", **{f"range_{name}": name for name in ("start_x", "end_x", "end_y")}}
    return {name: getattr(cores, attribute) for name, attribute in named.items()} if cores else {}


def _name_context(context: Context) -> dict[str, Value | None]:
    names: dict[str, Value | None] = {f"setting_{name}": value for name, value in context.settings.items()}
    names["operation"] = context.operation.rpartition(".")[2] or None
    names["call"] = context.operation or None
    names["family"] = find_family(context.operation) or context.family or None
    if places_result(context.operation):
        names["places_result"] = 1
    if context.operation and is_without_result(context.operation):
        names["has_no_result"] = 1
    if context.hints.get("phase") == "training":
        names["repeats"] = "in a training step"
    return {**names, **{name: context.hints.get(name) for name in ("sweep_status", "place", "phase", "compiler")}}


def _name_tensor(tensor: TensorGuess | None) -> dict[str, Value | None]:
    if tensor is None:
        return {}
    names = {
        "tensor_confidence": tensor.confidence,
        "tensor_text": tensor.text,
        "tensor_dtype": tensor.dtype,
        "tensor_layout": tensor.layout,
        "page_bytes": tensor.page_bytes,
        "pages": tensor.pages,
        "padding_ratio": round(tensor.padding_ratio, 1) if tensor.padding_ratio else None,
    }
    if tensor.shape:
        names |= {"tensor_shape": format_shape(tensor.shape), "tensor_width": tensor.shape[-1]}
        names |= {"tensor_is_logits": tensor.is_logits}
    return names


def _name_live(live: Sequence[LiveTensor]) -> dict[str, int]:
    if not live:
        return {}
    return {
        "live_tensors": len(live),
        "live_bytes_per_bank": sum(tensor.bytes_per_bank for tensor in live),
        "live_weight_bytes_per_bank": sum(tensor.bytes_per_bank for tensor in live if tensor.is_weight),
        "idle_tensors": sum(tensor.is_idle for tensor in live),
        "idle_bytes_per_bank": sum(tensor.bytes_per_bank for tensor in live if tensor.is_idle),
    }
