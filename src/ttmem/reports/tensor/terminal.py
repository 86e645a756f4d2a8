# SPDX-License-Identifier: Apache-2.0
"""What a tensor costs, for a person: a bar to scale, the figures, what would be cheaper, the other boards."""

from ttmem.reports.boards.terminal import opened
from ttmem.reports.kit.units import bytes_text, shape_text
from ttmem.reports.tensor.document import TensorCost

_BAR = 48
_PARTS = (("logical", "█", "32"), ("padding", "▓", "33"), ("alignment", "▒", "35"), ("lock step", "░", "36"))


def render(cost: TensorCost, *, color: bool = False) -> str:
    share = 100 * cost.taken_bytes_per_bank / cost.bank_bytes if cost.bank_bytes else 0.0
    verdict = "fits an empty board" if cost.fits else "DOES NOT FIT an empty board"
    sharded = " sharded" if cost.shard else ""
    where, _, sizes = opened(cost).partition("; bank sizes: ")
    lines = [
        f"{shape_text(cost.shape)} {cost.dtype} {cost.layout} {cost.memory}{sharded}",
        _bar(cost, color),
        "",
        f"padded shape    {shape_text(cost.padded_shape)}   ({cost.padding_ratio:,.2f} x the elements)",
        f"pages           {cost.pages:,} of {cost.page_bytes:,} B, {cost.aligned_page_bytes:,} B aligned",
        f"per bank        {cost.bytes_per_bank:,} B in {cost.banks} banks",
        f"of every bank   {cost.taken_bytes_per_bank:,} B of {cost.bank_bytes:,} B: {share:.1f} %",
        f"{cost.memory:<15} {verdict}: {where}",
        f"bank sizes      {sizes}",
    ]
    lines += [
        f"dimension {d.dimension}    {d.logical_size} -> {d.padded_size} adds {bytes_text(d.added_bytes)}"
        for d in cost.padding.dimensions
    ]
    for other in cost.cheaper:
        how = f"permute {list(other.order)}" if other.order else other.how.replace("row_major", "row_major layout")
        lines.append(f"cheaper         {how}: {shape_text(other.shape)} takes {other.bytes_per_bank:,} B per bank")
    if cost.boards[1:]:
        lines += ["", "on other boards"]
    for place in cost.boards[1:]:
        answer = "fits" if place.fits else "does not fit"
        lines.append(
            f"  {place.board:<17} {place.bytes_per_bank:>15,} B of {place.bank_bytes:>13,} B per bank  {answer}"
        )
    return "\n".join(lines)


def _bar(cost: TensorCost, color: bool) -> str:
    """Elements, padding of the shape, alignment of pages, and what banks in lock step reserve for nothing; to scale."""
    edges = (cost.logical_bytes, cost.padded_bytes, cost.padding.aligned_bytes, cost.padding.reserved_bytes)
    whole = max(edges[-1], 1)
    bar, legend, drawn, below = "", [], 0, 0
    for (name, mark, code), edge in zip(_PARTS, edges, strict=True):
        amount, below = max(edge - below, 0), max(edge, below)
        cells = round(_BAR * below / whole) - drawn
        drawn += cells
        text = mark * cells
        bar += f"\x1b[{code}m{text}\x1b[0m" if color and text else text
        if amount:
            legend.append(f"{mark} {name} {bytes_text(amount)}")
    return f"{bar}  {'   '.join(legend)}"
