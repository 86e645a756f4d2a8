# SPDX-License-Identifier: Apache-2.0
"""The steps of convolutions: in L1 at once, through L1 at once or slice by slice, or as a product of matrices."""

from dataclasses import dataclass, replace

from ttmem.allocator.operations.convolution_schemes import (
    HEIGHT,
    WIDTH,
    Chip,
    Convolution,
    Scheme,
    preferred_kind,
    scheme_of,
)
from ttmem.allocator.operations.elementwise import double_buffered_tiles
from ttmem.allocator.operations.halos import cut_out, deal, gather, keep_tables
from ttmem.allocator.operations.image_slices import Cut, cut_window, sliced
from ttmem.allocator.operations.matrix import product, product_spec
from ttmem.allocator.operations.movement import pad
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.reshaping import reshape
from ttmem.allocator.operations.sliding_window import Window, reader_table_width
from ttmem.allocator.operations.tilizing import tilize
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import DRAM, HOST, L1, Memory
from ttmem.tensors import ROW_MAJOR, TILE, TensorSpec, round_up

_TABLE_TOO_WIDE = "Reader indices buffer page size {} exceeds worst-case CB size {} (config tensor layout changed?)"
"""What the library says of windows that break off more often than it expects."""


@dataclass(slots=True)
class Parameters:
    """Weights and bias on the device: made by the first part of a convolution that needs them, there until its end."""

    weight: TensorSpec
    bias: TensorSpec | None
    slots: tuple[int, ...] = ()

    def move(self, plan: PlanWriter, weight: tuple[int, ...], bias: tuple[int, ...]) -> None:
        """What is on the host, in these shapes; always to DRAM, and the bias in the weights' type."""
        given = [(self.weight, weight), *([(self.bias, bias)] if self.bias is not None else [])]
        on_host = [shape for spec, shape in given if spec.memory is HOST]
        self.slots = tuple(plan.allocate(TensorSpec(shape, self.weight.dtype, TILE, DRAM)) for shape in on_host)


def convolve(
    plan: PlanWriter,
    made: Convolution,
    source: TensorSpec,
    parameters: Parameters,
    memory: Memory | None = None,
) -> tuple[int, TensorSpec]:
    """One convolution in L1: dealt out, halos gathered, convolved; the result is in shards unless wanted elsewhere."""
    chip = Chip.of(plan.memory_map)
    scheme = scheme_of(preferred_kind(made, chip), made, chip)
    slot, dealt = deal(plan, scheme.dealing, source)
    _prepare(plan, scheme, parameters)
    if made.window.spread is None or source.memory is DRAM:
        gathered, halo = _gather(plan, scheme, slot, dealt)
        made_slot, result = delivered(plan, *_convolve(plan, scheme, halo), memory)
        plan.free(gathered)
        return made_slot, result
    # A transposed convolution of a tensor in L1 gives its shards back last.
    gathered, halo = gather(plan, scheme.dealing, slot, dealt, frees_input=False)
    made_slot, result = _convolve(plan, scheme, halo)
    plan.free(gathered)
    made_slot, result = delivered(plan, made_slot, result, memory)
    plan.free(slot)
    return made_slot, result


def _prepare(plan: PlanWriter, scheme: Scheme, parameters: Parameters) -> None:
    """Weights, then the bias, in the form that the scheme's kernels read; always in DRAM."""
    if parameters.slots:
        return
    shape = scheme.weight_shape
    parameters.move(plan, shape, (1, 1, 32, shape[-1]))


def _gather(plan: PlanWriter, scheme: Scheme, slot: int, dealt: TensorSpec) -> tuple[int, TensorSpec]:
    """Dealt by channels alone and without padding, every core has all that its windows touch."""
    made = scheme.convolution
    is_plain = made.window.spread is None and not any(made.window.padding)
    if scheme.kind == WIDTH and made.layout is ROW_MAJOR and is_plain:
        return slot, dealt
    return gather(plan, scheme.dealing, slot, dealt)


def _convolve(plan: PlanWriter, scheme: Scheme, halo: TensorSpec) -> tuple[int, TensorSpec]:
    made = scheme.convolution
    result = TensorSpec((1, 1, made.window.outputs, made.out_channels), made.out_dtype, TILE, L1, scheme.out_shard)
    made_slot = plan.allocate(result)
    readers = scheme.readers()
    width = reader_table_width(made.window, scheme.cores_high, scheme.outputs_per_core, readers)
    width += width % 2
    keep_tables(plan, scheme.dealing, ("convolution", made, halo), (width,))
    if width > scheme.outputs_per_core:
        plan.refuse(_TABLE_TOO_WIDE.format(2 * width, 2 * scheme.outputs_per_core))
    plan.launch(scheme.static_bytes(), CIRCULAR)
    return made_slot, result


def delivered(plan: PlanWriter, slot: int, spec: TensorSpec, memory: Memory | None) -> tuple[int, TensorSpec]:
    """Where the caller wants it: interleaved in that memory."""
    if memory is None or (spec.shard is None and spec.memory is memory):
        return slot, spec
    result = replace(spec, memory=memory, shard=None)
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
        kind = ""
        for cut in parts:
            part, kind = _part(made, cut, chip, kind)
            _convolve_slice(plan, scheme_of(kind, part, chip, is_sliced=True), parameters)
        return _flattened(plan, place, image, parameters)
    plan.free(place)
    slot, spec = convolve(plan, made, source, parameters)
    result = replace(spec, memory=DRAM, shard=None)
    delivered = plan.allocate(result)
    plan.free(slot, *parameters.slots)
    return plan.finish(delivered, result)


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
    return scheme_of(kind, part, chip, is_sliced=part.window != made.window).estimated_peak_bytes


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
    _prepare(plan, scheme, parameters)
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
    plan.free(*parameters.slots)
    return plan.finish(slot, spec)


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


def multiply(
    plan: PlanWriter,
    made: Convolution,
    source: TensorSpec,
    parameters: Parameters,
    memory: Memory | None = None,
) -> tuple[int, TensorSpec]:
    """A kernel of one pixel: sticks times weights. The input becomes tiles, before or after the weights are moved."""
    chip = Chip.of(plan.memory_map)
    scheme = scheme_of(preferred_kind(made, chip), made, chip)
    tiles, is_early = replace(source, layout=TILE), scheme.kind != HEIGHT
    tiled = tilize(plan, source, tiles) if source.layout is not TILE and is_early else 0
    weight = TensorSpec((1, 1, made.in_channels, made.out_channels), parameters.weight.dtype, TILE, DRAM)
    bias = None if parameters.bias is None else replace(weight, shape=(1, 1, 1, made.out_channels))
    parameters.move(plan, weight.shape, (1, 1, 1, made.out_channels))
    if source.layout is not TILE and not is_early:
        tiled = tilize(plan, source, tiles)
    wanted = product_spec(tiles, weight, (False, False), None, made.out_dtype)
    slot, spec, copies = product(plan, tiles, weight, wanted, (False, False), bias)
    plan.free(*copies)
    slot, spec = delivered(plan, slot, spec, memory)
    plan.free(tiled)
    return slot, spec
