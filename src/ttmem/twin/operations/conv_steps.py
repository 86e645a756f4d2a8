# SPDX-License-Identifier: Apache-2.0
"""The steps of a convolution: in L1, or through L1 whole or slice by slice."""

from dataclasses import dataclass, replace
from math import prod

from ttmem.base.arithmetic import round_up
from ttmem.hardware import DRAM, HOST, L1, Memory
from ttmem.twin.operations.conv_config import BLOCK, WIDTH
from ttmem.twin.operations.conv_parallelization import (
    ChipGrid,
    Convolution,
    Scheme,
    choose_kind,
    choose_scheme,
    fill_rows,
    read_scheme,
)
from ttmem.twin.operations.elementwise import double_buffered_tiles
from ttmem.twin.operations.halo import cut_out, deal, gather, keep_tables
from ttmem.twin.operations.image_slices import Cut, choose_slices, cut_window
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.pad import pad
from ttmem.twin.operations.plan import EXACT, Call, NoRuleError, Plan, PlanBuilder
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.operations.sliding_window import Window, compute_reader_table_width
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, Shard, TensorSpec

_TABLE_TOO_WIDE = "Reader indices buffer page size {} exceeds worst-case CB size {} (config tensor layout changed?)"
"""The library's message for windows with more breaks than it expects."""
_BLOCK_TOO_HIGH = (
    "Output block height (in # of tiles) ({}) should be greater than or equal to activation block height "
    "(in # of tiles) ({})"
)
_BLOCKS_LEAVE_A_REST = "act_matrix_height_ntiles {} should be divisible by act_block_h_ntiles {}"


@dataclass(slots=True)
class Parameters:
    """Weights and bias on the device: created by the first step that needs them, freed at the end."""

    weight: TensorSpec
    bias: TensorSpec | None
    slots: tuple[int, ...] = ()
    results: tuple[tuple[int, TensorSpec], ...] = ()
    is_returned: bool = False
    """Whether the caller receives them with the result."""

    def finish(self, plan: PlanBuilder, slot: int, spec: TensorSpec) -> Plan:
        """Finish the convolution: free the weights and bias, or return them."""
        if not self.is_returned:
            plan.free(*self.slots)
            return plan.finish(slot, spec)
        return plan.finish_all([(slot, spec), *self.results])

    def move(self, plan: PlanBuilder, rows: int, columns: int, padded: tuple[int, int] = (1, 1)) -> None:
        """Move host tensors to DRAM as a matrix and a row; the bias has the type of the weights."""
        weight = TensorSpec((1, 1, rows, columns), self.weight.dtype, TILE, DRAM, alignment=padded)
        bias = replace(weight, shape=(1, 1, 1, columns), alignment=(1, padded[1]))
        given = [(self.weight, weight), *([(self.bias, bias)] if self.bias is not None else [])]
        made = [spec for own, spec in given if own.memory is HOST]
        self.slots = tuple(plan.allocate(spec) for spec in made)
        self.results = tuple(zip(self.slots, made, strict=True))


def convolve(
    plan: PlanBuilder, made: Convolution, source: TensorSpec, parameters: Parameters, memory: Memory | None = None
) -> tuple[int, TensorSpec]:
    """Plan a convolution in L1: shard, gather halos, convolve; the result is sharded unless ``memory`` is set."""
    scheme = settle_scheme(plan, made, source)
    slot, dealt = shard_input(plan, scheme, source)
    prepare(plan, scheme, parameters)
    if made.window.spread is None or source.memory is DRAM:
        gathered, halo = _gather(plan, scheme, slot, dealt)
        made_slot, result = move_result(plan, *_convolve(plan, scheme, halo), memory)
        plan.free(gathered)
        return made_slot, result
    # A transposed convolution of an L1 tensor frees its shards last.
    gathered, halo = gather(plan, scheme.dealing, slot, dealt, frees_input=False, kernel=made.kernel)
    made_slot, result = _convolve(plan, scheme, halo)
    plan.free(gathered)
    made_slot, result = move_result(plan, made_slot, result, memory)
    plan.free(slot)
    return made_slot, result


def settle_scheme(plan: PlanBuilder, made: Convolution, source: TensorSpec) -> Scheme:
    """Return the scheme of the input's shards, of the caller's choice, or the library's preference."""
    chip = ChipGrid.read(plan.memory_map)
    if not isinstance(source.shard, Shard):
        return choose_scheme(choose_kind(made, chip), made, chip)
    shard = source.shard
    if shard.kind == BLOCK and (shard.ranges[0].start_x or shard.ranges[0].start_y):
        raise NoRuleError("blocks that do not begin at the first core")
    if shard.kind == WIDTH and not made.is_matmul and shard.ranges != fill_rows(shard.cores, chip.grid):
        raise NoRuleError("width shards on other cores than the first ones, row by row")
    scheme = read_scheme(made, chip, shard)
    if scheme is not None and scheme.cores_in > 1 and (scheme.cores_in - 1) * shard.width >= made.in_channels:
        raise NoRuleError("shards on more cores than share the channels")
    if scheme is not None and not made.choices.reshards:
        return scheme
    kind = made.choices.kind
    if scheme is None and made.is_matmul and shard.kind == BLOCK:
        kind = BLOCK
    if not kind or not source.is_tiled:
        raise NoRuleError("resharded row-major shards, or a scheme that the caller did not choose")
    wanted = choose_scheme(kind, made, chip)
    if scheme is None or (wanted.kind, wanted.ranges(wanted.cores_in)) != (scheme.kind, shard.ranges):
        return wanted
    return scheme


def shard_input(plan: PlanBuilder, scheme: Scheme, source: TensorSpec) -> tuple[int, TensorSpec]:
    """Return the sharded input. A caller's input that may be freed makes room for it."""
    if scheme.given is not None:
        return -1, source
    if source.shard is None:
        slot, dealt = deal(plan, scheme.dealing, source)
    else:
        wanted = scheme.dealing.make_shard(scheme.in_sticks)
        made = to_memory_config(Call("", (replace(source, alignment=(1, 1)),), {}, L1, shard=wanted), plan)
        if not made.results or made.confidence != EXACT:
            raise NoRuleError("resharding that is not verified")
        ((slot, dealt),) = made.results
        if slot < 0:
            raise NoRuleError("blocks with padded channels that are resharded to the same shards")
    if scheme.convolution.choices.frees_input and source.memory is not DRAM:
        plan.free_input(0)
        plan.free(slot)
        slot = plan.allocate(dealt)
    return slot, dealt


def prepare(plan: PlanBuilder, scheme: Scheme, parameters: Parameters) -> None:
    """Move weights, then the bias, to DRAM in the form that the scheme's kernels read."""
    if parameters.slots:
        return
    made = scheme.convolution
    if made.is_row_depthwise and parameters.is_returned:
        raise NoRuleError("returned weights of a depthwise row")
    # In conv1d each depthwise tap has a row of tiles for all channels.
    rows = scheme.weight_shape[0] if made.is_row_depthwise else made.in_channels * prod(made.window.kernel)
    parameters.move(plan, rows, made.out_channels, scheme.weight_shape)


def _gather(plan: PlanBuilder, scheme: Scheme, slot: int, dealt: TensorSpec) -> tuple[int, TensorSpec]:
    """Gather halos; for width shards without padding each core has all that its windows read."""
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


def _convolve(plan: PlanBuilder, scheme: Scheme, halo: TensorSpec) -> tuple[int, TensorSpec]:
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
    width = compute_reader_table_width(made.window, scheme.cores_high, scheme.outputs_per_core, readers)
    width += width % 2
    program = replace(made, choices=made.choices.select_program_choices(sums_in_float32=made.sums_in_float32))
    keep_tables(plan, scheme.dealing, ("convolution", program, halo), (width,))
    if has_rest:  # for width shards the tables are created first
        plan.refuse(rest)
    if width > scheme.outputs_per_core:
        plan.refuse(_TABLE_TOO_WIDE.format(2 * width, 2 * scheme.outputs_per_core))
    plan.launch(scheme.static_bytes(), CIRCULAR)
    return made_slot, result


def move_result(plan: PlanBuilder, slot: int, spec: TensorSpec, memory: Memory | None) -> tuple[int, TensorSpec]:
    """Move the result to the caller's memory, interleaved."""
    if memory is None or (spec.shard is None and spec.memory is memory):
        return slot, spec
    result = replace(spec, memory=memory, shard=None, alignment=(1, 1))
    made = plan.allocate(result)
    if spec.shard is None:
        plan.launch(double_buffered_tiles(spec))
    plan.free(slot)
    return made, result


def convolve_through_l1(plan: PlanBuilder, made: Convolution, source: TensorSpec, parameters: Parameters) -> Plan:
    """Plan a convolution of an image in DRAM: the result is allocated first, and freed if no slices are needed."""
    window, chip = made.window, ChipGrid.read(plan.memory_map)
    shape = (window.batch, window.output_height, window.output_width, made.out_channels)
    image = TensorSpec(shape, made.out_dtype, TILE, DRAM)
    place = plan.allocate(image)
    known: dict[tuple[Window, int], int] = {}
    parts = choose_slices(window, lambda cut: _estimate_bytes(made, cut, chip, known), plan.l1_bytes_free, tiled=True)
    if isinstance(parts, str):
        plan.refuse(parts)
    if len(parts) > 1:
        if made.choices.reshards:
            raise NoRuleError("resharded slices")
        kind = ""
        for cut in parts:
            part, kind = _convolve_part(made, cut, chip, kind)
            _convolve_slice(plan, choose_scheme(kind, part, chip, is_sliced=True, is_blind=True), parameters)
        return _flatten(plan, place, image, parameters)
    plan.free(place)
    slot, spec = convolve(plan, made, source, parameters)
    result = replace(spec, memory=DRAM, shard=None, alignment=(1, 1))
    move_result = plan.allocate(result)
    plan.free(slot)
    return parameters.finish(plan, move_result, result)


def _convolve_part(made: Convolution, cut: Cut, chip: ChipGrid, kind: str = "") -> tuple[Convolution, str]:
    """Return the convolution of a slice, estimated with the whole image's padding, and its kind (the first slice's)."""
    part = replace(made, window=cut_window(made.window, cut, tiled=True))
    if made.window.spread is not None:
        return part, kind or choose_kind(part, chip)
    return part, kind or choose_kind(part, chip, replace(part.window, padding=made.window.padding))


def _estimate_bytes(made: Convolution, cut: Cut, chip: ChipGrid, known: dict[tuple[Window, int], int]) -> int:
    """Estimate the bytes of a slice; equal slices are in ``known``."""
    alike = cut_window(made.window, cut, tiled=True), cut.right - cut.left
    if alike not in known:
        known[alike] = _estimate_slice_bytes(made, cut, chip)
    return known[alike]


def _estimate_slice_bytes(made: Convolution, cut: Cut, chip: ChipGrid) -> int:
    part, kind = _convolve_part(made, cut, chip)
    if made.window.spread is not None:
        return _estimate_transposed_bytes(choose_scheme(kind, part, chip, is_sliced=True), cut)
    is_sliced = part.window != made.window
    return choose_scheme(kind, part, chip, is_sliced=is_sliced, is_blind=True).estimated_peak_bytes


def _estimate_transposed_bytes(scheme: Scheme, cut: Cut) -> int:
    """Estimate a transposed convolution with channels in whole tiles and the slice's own width."""
    part = scheme.convolution
    more = part.window.output_padding[1] - (part.window.output_width - (cut.right - cut.left))
    window = replace(part.window, output_padding=(part.window.output_padding[0], more))
    reckoned = replace(scheme, unit=32, convolution=replace(part, window=window))
    convolved = sum(reckoned.static_bytes(is_estimate=True)) + reckoned.out_shard_bytes
    sticks = scheme.in_sticks * scheme.channels_per_core * part.stick_bytes
    return scheme.halo_bytes + max(convolved, sticks)


def _convolve_slice(plan: PlanBuilder, scheme: Scheme, parameters: Parameters) -> None:
    """Slice from DRAM into shards, convolve, write back."""
    slot, dealt = cut_out(plan, scheme.dealing, scheme.convolution.stick_dtype)
    prepare(plan, scheme, parameters)
    gathered, halo = _gather(plan, scheme, slot, dealt)
    made_slot, _ = _convolve(plan, scheme, halo)
    plan.free(gathered, made_slot)


def _flatten(plan: PlanBuilder, place: int, image: TensorSpec, parameters: Parameters) -> Plan:
    """Reshape the images to one list of sticks: a copy unless their rows are whole tiles."""
    shape = (1, 1, image.elements // image.shape[-1], image.shape[-1])
    (slot, spec), *_ = reshape(Call("reshape", (image,), {"shape": shape}), plan).results
    if slot < 0:
        slot = place
    else:
        plan.free(place)
    return parameters.finish(plan, slot, spec)


def is_patchwise(window: Window) -> bool:
    """Return whether windows neither overlap nor leave a remainder."""
    if window.spread is not None:
        return False
    fits = window.padded_height % window.stride[0] == 0 == window.padded_width % window.stride[1]
    return window.kernel == window.stride != (1, 1) == window.dilation and fits


def fold_window(made: Convolution) -> Convolution:
    """Return the convolution with all pixels of a window as channels of one."""
    window, (down, across) = made.window, made.window.kernel
    pixels = Window(window.batch, window.padded_height // down, window.padded_width // across, (1, 1))
    return replace(made, window=pixels, in_channels=made.in_channels * down * across, is_matmul=True)


def fold(plan: PlanBuilder, made: Convolution, source: TensorSpec) -> tuple[int, TensorSpec]:
    """Bring the pixels of a window together in DRAM; an image with padding is padded first."""
    window, padded = made.window, 0
    if any(window.padding):
        top, bottom, left, right = window.padding
        image = replace(source, shape=(window.batch, window.height, window.width, made.in_channels))
        padding = ((0, 0), (top, bottom), (left, right), (0, 0))
        (padded, _), *_ = pad(Call("pad", (image,), {"padding": padding, "value": 0.0}), plan).results
    patches = fold_window(made)
    spec = replace(source, shape=(1, 1, patches.window.outputs, patches.in_channels))
    slot = plan.allocate(spec)
    stick, pixels = made.in_channels * made.stick_bytes, window.kernel[0] * window.kernel[1]
    aligned = round_up(stick, plan.memory_map.architecture.dram_alignment_bytes)
    plan.launch([2 * aligned * pixels, *([stick * pixels] if stick != aligned else [])])
    plan.free(padded)
    return slot, spec
