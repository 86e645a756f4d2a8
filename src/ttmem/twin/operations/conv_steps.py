# SPDX-License-Identifier: Apache-2.0
"""The steps of convolutions: in L1 at once, through L1 at once or slice by slice, or as a product of matrices."""

from dataclasses import dataclass, replace
from math import prod

from ttmem.base.arithmetic import round_up
from ttmem.hardware import DRAM, HOST, L1, Memory
from ttmem.twin.operations.conv_config import BLOCK, WIDTH, UnknownChoiceError
from ttmem.twin.operations.conv_parallelization import (
    Chip,
    Convolution,
    Scheme,
    preferred_kind,
    row_by_row,
    scheme_in,
    scheme_of,
)
from ttmem.twin.operations.elementwise import double_buffered_tiles
from ttmem.twin.operations.halo import cut_out, deal, gather, keep_tables
from ttmem.twin.operations.image_slices import Cut, cut_window, sliced
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.pad import pad
from ttmem.twin.operations.plan import EXACT, Call, Plan, PlanWriter
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.operations.sliding_window import Window, reader_table_width
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, Shard, TensorSpec

_TABLE_TOO_WIDE = "Reader indices buffer page size {} exceeds worst-case CB size {} (config tensor layout changed?)"
"""What the library says of windows that break off more often than it expects."""
_BLOCK_TOO_HIGH = (
    "Output block height (in # of tiles) ({}) should be greater than or equal to activation block height "
    "(in # of tiles) ({})"
)
_BLOCKS_LEAVE_A_REST = "act_matrix_height_ntiles {} should be divisible by act_block_h_ntiles {}"


@dataclass(slots=True)
class Parameters:
    """Weights and bias on the device: made by the first part of a convolution that needs them, there until its end."""

    weight: TensorSpec
    bias: TensorSpec | None
    slots: tuple[int, ...] = ()
    results: tuple[tuple[int, TensorSpec], ...] = ()
    is_returned: bool = False
    """Whether the caller gets them beside the result."""

    def finish(self, plan: PlanWriter, slot: int, spec: TensorSpec) -> Plan:
        """The end of a convolution: they go, or are results too."""
        if not self.is_returned:
            plan.free(*self.slots)
            return plan.finish(slot, spec)
        return plan.finish_all([(slot, spec), *self.results])

    def move(self, plan: PlanWriter, rows: int, columns: int, padded: tuple[int, int] = (1, 1)) -> None:
        """What is on the host, as a matrix and a row; always to DRAM, and the bias in the weights' type."""
        weight = TensorSpec((1, 1, rows, columns), self.weight.dtype, TILE, DRAM, alignment=padded)
        bias = replace(weight, shape=(1, 1, 1, columns), alignment=(1, padded[1]))
        given = [(self.weight, weight), *([(self.bias, bias)] if self.bias is not None else [])]
        made = [spec for own, spec in given if own.memory is HOST]
        self.slots = tuple(plan.allocate(spec) for spec in made)
        self.results = tuple(zip(self.slots, made, strict=True))


def convolve(
    plan: PlanWriter,
    made: Convolution,
    source: TensorSpec,
    parameters: Parameters,
    memory: Memory | None = None,
) -> tuple[int, TensorSpec]:
    """One convolution in L1: dealt out, halos gathered, convolved; the result is in shards unless wanted elsewhere."""
    scheme = settled(plan, made, source)
    slot, dealt = dealt_out(plan, scheme, source)
    prepare(plan, scheme, parameters)
    if made.window.spread is None or source.memory is DRAM:
        gathered, halo = _gather(plan, scheme, slot, dealt)
        made_slot, result = delivered(plan, *_convolve(plan, scheme, halo), memory)
        plan.free(gathered)
        return made_slot, result
    # A transposed convolution of a tensor in L1 gives its shards back last.
    gathered, halo = gather(plan, scheme.dealing, slot, dealt, frees_input=False, kernel=made.kernel)
    made_slot, result = _convolve(plan, scheme, halo)
    plan.free(gathered)
    made_slot, result = delivered(plan, made_slot, result, memory)
    plan.free(slot)
    return made_slot, result


def settled(plan: PlanWriter, made: Convolution, source: TensorSpec) -> Scheme:
    """How it is dealt out: as the input lies, as was chosen, or as the library prefers."""
    chip = Chip.of(plan.memory_map)
    if not isinstance(source.shard, Shard):
        return scheme_of(preferred_kind(made, chip), made, chip)
    shard = source.shard
    if shard.kind == BLOCK and (shard.ranges[0].start_x or shard.ranges[0].start_y):
        raise UnknownChoiceError("blocks that do not begin at the first core")
    if shard.kind == WIDTH and not made.is_matmul and shard.ranges != row_by_row(shard.cores, chip.grid):
        raise UnknownChoiceError("shards of channels on other cores than the first ones, row by row")
    scheme = scheme_in(made, chip, shard)
    if scheme is not None and scheme.cores_in > 1 and (scheme.cores_in - 1) * shard.width >= made.in_channels:
        raise UnknownChoiceError("shards on more cores than share the channels")
    if scheme is not None and not made.choices.reshards:
        return scheme
    kind = made.choices.kind
    if scheme is None and made.is_matmul and shard.kind == BLOCK:
        kind = BLOCK
    if not kind or not source.is_tiled:
        raise UnknownChoiceError("rows in shards that are dealt anew, or as nobody chose")
    wanted = scheme_of(kind, made, chip)
    if scheme is None or (wanted.kind, wanted.ranges(wanted.cores_in)) != (scheme.kind, shard.ranges):
        return wanted
    return scheme


def dealt_out(plan: PlanWriter, scheme: Scheme, source: TensorSpec) -> tuple[int, TensorSpec]:
    """The input in shards. One of the caller's that may go makes room, and the shards move there."""
    if scheme.given is not None:
        return -1, source
    if source.shard is None:
        slot, dealt = deal(plan, scheme.dealing, source)
    else:
        wanted = scheme.dealing.shard(scheme.in_sticks)
        made = to_memory_config(Call("", (replace(source, alignment=(1, 1)),), {}, L1, shard=wanted), plan)
        if not made.results or made.confidence != EXACT:
            raise UnknownChoiceError("shards that are dealt anew in a way that was not compared")
        ((slot, dealt),) = made.results
        if slot < 0:
            raise UnknownChoiceError("blocks with padded channels, which are dealt anew into the same shards")
    if scheme.convolution.choices.frees_input and source.memory is not DRAM:
        plan.free_input(0)
        plan.free(slot)
        slot = plan.allocate(dealt)
    return slot, dealt


def prepare(plan: PlanWriter, scheme: Scheme, parameters: Parameters) -> None:
    """Weights, then the bias, in the form that the scheme's kernels read; always in DRAM."""
    if parameters.slots:
        return
    made = scheme.convolution
    if made.is_row_depthwise and parameters.is_returned:
        raise UnknownChoiceError("weights of a row that are returned")
    # Depthwise along a line every tap has a row of tiles for all channels.
    rows = scheme.weight_shape[0] if made.is_row_depthwise else made.in_channels * prod(made.window.kernel)
    parameters.move(plan, rows, made.out_channels, scheme.weight_shape)


def _gather(plan: PlanWriter, scheme: Scheme, slot: int, dealt: TensorSpec) -> tuple[int, TensorSpec]:
    """Dealt by channels alone and without padding, every core has all that its windows touch."""
    made = scheme.convolution
    is_plain = made.window.spread is None and not any(made.window.padding)
    if scheme.kind == WIDTH and not made.is_tiled and is_plain:
        return slot, dealt
    if slot < 0 and made.choices.frees_input:
        gathered = gather(plan, scheme.dealing, slot, dealt, moves=False, kernel=made.kernel)
        plan.free_input(0)
        if made.choices.moves_halo:
            plan.free(gathered[0])
            return plan.allocate(gathered[1]), gathered[1]
        return gathered
    gathered = gather(plan, scheme.dealing, slot, dealt, moves=made.choices.moves_halo, kernel=made.kernel)
    if not made.choices.moves_halo:
        plan.free(slot)
    return gathered


def _convolve(plan: PlanWriter, scheme: Scheme, halo: TensorSpec) -> tuple[int, TensorSpec]:
    made = scheme.convolution
    layout = ROW_MAJOR if made.choices.gives_rows else TILE
    shape = (1, 1, made.window.outputs, made.out_channels)
    result = TensorSpec(shape, made.out_dtype, layout, L1, scheme.out_shard, alignment=(32, 32))
    made_slot = plan.allocate(result)
    if scheme.block_tiles_high > scheme.out_tiles_high:
        plan.refuse(_BLOCK_TOO_HIGH.format(scheme.out_tiles_high, scheme.block_tiles_high))
    has_rest = scheme.out_tiles_high % scheme.block_tiles_high > 0
    rest = _BLOCKS_LEAVE_A_REST.format(scheme.out_tiles_high, scheme.block_tiles_high)
    if has_rest and scheme.kind != WIDTH:
        plan.refuse(rest)
    readers = scheme.readers()
    width = reader_table_width(made.window, scheme.cores_high, scheme.outputs_per_core, readers)
    width += width % 2
    program = replace(made, choices=made.choices.of_program(sums_in_float32=made.sums_in_float32))
    keep_tables(plan, scheme.dealing, ("convolution", program, halo), (width,))
    if has_rest:  # by channels the tables are made first
        plan.refuse(rest)
    if width > scheme.outputs_per_core:
        plan.refuse(_TABLE_TOO_WIDE.format(2 * width, 2 * scheme.outputs_per_core))
    plan.launch(scheme.static_bytes(), CIRCULAR)
    return made_slot, result


def delivered(plan: PlanWriter, slot: int, spec: TensorSpec, memory: Memory | None) -> tuple[int, TensorSpec]:
    """Where the caller wants it: interleaved in that memory."""
    if memory is None or (spec.shard is None and spec.memory is memory):
        return slot, spec
    result = replace(spec, memory=memory, shard=None, alignment=(1, 1))
    made = plan.allocate(result)
    if spec.shard is None:
        plan.launch(double_buffered_tiles(spec))
    plan.free(slot)
    return made, result


def through_l1(plan: PlanWriter, made: Convolution, source: TensorSpec, parameters: Parameters) -> Plan:
    """The result's place in DRAM is taken first, and given back when no slices are needed."""
    window, chip = made.window, Chip.of(plan.memory_map)
    shape = (window.batch, window.output_height, window.output_width, made.out_channels)
    image = TensorSpec(shape, made.out_dtype, TILE, DRAM)
    place = plan.allocate(image)
    known: dict[tuple[Window, int], int] = {}
    parts = sliced(window, lambda cut: _bytes_needed(made, cut, chip, known), plan.l1_bytes_free, tiled=True)
    if isinstance(parts, str):
        plan.refuse(parts)
    if len(parts) > 1:
        if made.choices.reshards:
            raise UnknownChoiceError("slices that are dealt anew")
        kind = ""
        for cut in parts:
            part, kind = _part(made, cut, chip, kind)
            _convolve_slice(plan, scheme_of(kind, part, chip, is_sliced=True, is_blind=True), parameters)
        return _flattened(plan, place, image, parameters)
    plan.free(place)
    slot, spec = convolve(plan, made, source, parameters)
    result = replace(spec, memory=DRAM, shard=None, alignment=(1, 1))
    delivered = plan.allocate(result)
    plan.free(slot)
    return parameters.finish(plan, delivered, result)


def _part(made: Convolution, cut: Cut, chip: Chip, kind: str = "") -> tuple[Convolution, str]:
    """A slice for itself, and how it is dealt out unless the first slice settled that.

    The library reckons with the whole image's padding there.
    """
    part = replace(made, window=cut_window(made.window, cut, tiled=True))
    if made.window.spread is not None:
        return part, kind or preferred_kind(part, chip)
    return part, kind or preferred_kind(part, chip, replace(part.window, padding=made.window.padding))


def _bytes_needed(made: Convolution, cut: Cut, chip: Chip, known: dict[tuple[Window, int], int]) -> int:
    """Most slices are like the ones beside them, so what is ``known`` is not worked out again."""
    alike = cut_window(made.window, cut, tiled=True), cut.right - cut.left
    if alike not in known:
        known[alike] = _bytes_of(made, cut, chip)
    return known[alike]


def _bytes_of(made: Convolution, cut: Cut, chip: Chip) -> int:
    part, kind = _part(made, cut, chip)
    if made.window.spread is not None:
        return _transposed_bytes_needed(scheme_of(kind, part, chip, is_sliced=True), cut)
    is_sliced = part.window != made.window
    return scheme_of(kind, part, chip, is_sliced=is_sliced, is_blind=True).estimated_peak_bytes


def _transposed_bytes_needed(scheme: Scheme, cut: Cut) -> int:
    """Reckoned with channels in whole tiles, and with the slice's own width."""
    part = scheme.convolution
    more = part.window.output_padding[1] - (part.window.output_width - (cut.right - cut.left))
    window = replace(part.window, output_padding=(part.window.output_padding[0], more))
    reckoned = replace(scheme, unit=32, convolution=replace(part, window=window))
    convolved = sum(reckoned.static_bytes(is_estimate=True)) + reckoned.out_shard_bytes
    sticks = scheme.in_sticks * scheme.channels_per_core * part.stick_bytes
    return scheme.halo_bytes + max(convolved, sticks)


def _convolve_slice(plan: PlanWriter, scheme: Scheme, parameters: Parameters) -> None:
    """Cut out of DRAM into shards, convolved, written back."""
    slot, dealt = cut_out(plan, scheme.dealing, scheme.convolution.stick_dtype)
    prepare(plan, scheme, parameters)
    gathered, halo = _gather(plan, scheme, slot, dealt)
    made_slot, _ = _convolve(plan, scheme, halo)
    plan.free(gathered, made_slot)


def _flattened(plan: PlanWriter, place: int, image: TensorSpec, parameters: Parameters) -> Plan:
    """The images as one list of sticks: a copy unless their rows are whole tiles."""
    shape = (1, 1, image.elements // image.shape[-1], image.shape[-1])
    (slot, spec), *_ = reshape(Call("reshape", (image,), {"shape": shape}), plan).results
    if slot < 0:
        slot = place
    else:
        plan.free(place)
    return parameters.finish(plan, slot, spec)


def is_patchwise(window: Window) -> bool:
    """Windows that do not overlap and leave nothing over."""
    if window.spread is not None:
        return False
    fits = window.padded_height % window.stride[0] == 0 == window.padded_width % window.stride[1]
    return window.kernel == window.stride != (1, 1) == window.dilation and fits


def folded(made: Convolution) -> Convolution:
    """The same with all pixels of a window as channels of one."""
    window, (down, across) = made.window, made.window.kernel
    pixels = Window(window.batch, window.padded_height // down, window.padded_width // across, (1, 1))
    return replace(made, window=pixels, in_channels=made.in_channels * down * across, is_matmul=True)


def fold(plan: PlanWriter, made: Convolution, source: TensorSpec) -> tuple[int, TensorSpec]:
    """Pixels of a window are brought together in DRAM; an image with padding is copied with it first."""
    window, padded = made.window, 0
    if any(window.padding):
        top, bottom, left, right = window.padding
        image = replace(source, shape=(window.batch, window.height, window.width, made.in_channels))
        padding = ((0, 0), (top, bottom), (left, right), (0, 0))
        (padded, _), *_ = pad(Call("pad", (image,), {"padding": padding, "value": 0.0}), plan).results
    patches = folded(made)
    spec = replace(source, shape=(1, 1, patches.window.outputs, patches.in_channels))
    slot = plan.allocate(spec)
    stick, pixels = made.in_channels * made.stick_bytes, window.kernel[0] * window.kernel[1]
    aligned = round_up(stick, plan.memory_map.architecture.dram_alignment_bytes)
    plan.launch([2 * aligned * pixels, *([stick * pixels] if stick != aligned else [])])
    plan.free(padded)
    return slot, spec
