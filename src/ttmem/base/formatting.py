# SPDX-License-Identifier: Apache-2.0
"""Format amounts, shapes and names as text, so that every format writes them alike.

ttnn and its logs call MiB "MB".
"""

import re
import string
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

MIB = 1 << 20


def format_mib(amount_bytes: float, *, decimals: int = 3, signed: bool = False) -> str:
    """``6.902 MiB``; three decimals are what the logs print, so more would be invented."""
    sign = "+" if signed else ""
    return f"{_round(amount_bytes / MIB, decimals):{sign},.{decimals}f} MiB"


def format_percent(share: float | None, *, decimals: int = 1, signed: bool = False) -> str:
    """``81.3%``; a dash for a share of nothing (a memory of 0 bytes)."""
    if share is None:
        return "-"
    sign = "+" if signed else ""
    return f"{_round(share, decimals):{sign},.{decimals}f}%"


def _round(value: float, decimals: int) -> float:
    return round(value, decimals) + 0.0


_WORDS = re.compile(r"[^\W\d_]+|\d+|[\W_]+")
_SHORTEST_WORD = 1

KIB, GIB = 1 << 10, 1 << 30

_SHORT_DTYPES = {
    "bfloat16": "bf16",
    "float32": "f32",
    "bfloat8_b": "bfp8",
    "bfloat4_b": "bfp4",
    "float16": "f16",
    "int32": "si32",
    "uint32": "ui32",
    "uint16": "ui16",
    "uint8": "ui8",
}


def format_mib_number(amount_bytes: float, *, decimals: int = 3, signed: bool = False) -> str:
    """``6.902``: the bare number, for columns whose head says MiB."""
    return format_mib(amount_bytes, decimals=decimals, signed=signed).removesuffix(" MiB")


def format_kib_number(amount_bytes: int) -> str:
    """``48`` for 49152 B: the bare number of KiB, for columns whose head says KiB."""
    return f"{amount_bytes / KIB:,.1f}".removesuffix(".0")


def format_bytes(amount_bytes: int | None) -> str:
    """``83.50 MiB``, or ``4,096 B`` where MiB would read 0.00; ``-`` when unknown."""
    if amount_bytes is None:
        return "-"
    return format_mib(amount_bytes, decimals=2) if amount_bytes >= MIB else f"{format_count(amount_bytes)} B"


def format_compact_bytes(amount_bytes: int | None) -> str:
    """``1.49GB``, ``765.0MB``, ``12.0KB``: units of 1024, as the older sweep reports write them; ``-`` when unknown."""
    if amount_bytes is None:
        return "-"
    if amount_bytes >= GIB:
        return f"{amount_bytes / GIB:.2f}GB"
    return f"{amount_bytes / MIB:.1f}MB" if amount_bytes >= MIB else f"{amount_bytes / KIB:.1f}KB"


def format_share(part: float, whole: float) -> str:
    """``81.3%`` of a whole; a dash for a share of nothing."""
    return format_percent(100 * part / whole if whole else None)


def format_count(count: int) -> str:
    """``562,894``."""
    return f"{count:,}"


def pluralize(count: int, noun: str) -> str:
    """``1 run``, ``5 runs``."""
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def format_range(bounds: tuple[float, float], decimals: int = 1) -> str:
    """``28.9-82.5``, or one figure when both ends print alike."""
    low, high = (f"{bound:,.{decimals}f}" for bound in bounds)
    return low if low == high else f"{low}-{high}"


def format_shape(shape: Sequence[int], dtype: str = "") -> str:
    """``1x32x4x64 (bf16)``, the notation that readers of these reports know."""
    text = "x".join(map(str, shape)) or "scalar"
    return f"{text} ({_SHORT_DTYPES.get(dtype, dtype)})" if dtype else text


def format_shape_list(shape: Sequence[int], *, unknown: str = "-") -> str:
    """``[1, 96, 2176, 1920]``, as test results write shapes."""
    return f"[{', '.join(map(str, shape))}]" if shape else unknown


def format_operation(index: int | None, name: str) -> str:
    """``#169 ttnn.to_layout``."""
    return name if index is None else f"#{index} {name}"


def flatten_text(text: str) -> str:
    """Replace control characters and runs of blanks by one blank: names and messages come from logs."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    elif "  " not in text and text[:1] != " " and text[-1:] != " ":
        return text  # nearly every cell of tables of many thousand rows; the blank is the only space that prints
    return " ".join(text.split())


def shorten(text: str, width: int) -> str:
    """Cut the middle, more of the head than of the tail: names begin alike and end with what they are."""
    text = flatten_text(text)
    if len(text) <= width:
        return text
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def abbreviate(name: str, width: int) -> str:
    """``b…_0_mlp_fc1_w…``: shorten words, longest first, and keep numbers, because they distinguish layers."""
    parts = _WORDS.findall(flatten_text(name))
    sizes = [len(part) if part.isalpha() else 0 for part in parts]
    room = width - sum(len(part) for part, size in zip(parts, sizes, strict=True) if not size)

    def needed(most: int) -> int:
        return sum(_measure_word(size, most) for size in sizes)

    levels = range(_SHORTEST_WORD, width + 2)
    found = bisect_right(levels, room, key=needed)
    if found == len(levels):
        return "".join(parts)
    if not found:
        return shorten(name, width)
    most = levels[found]  # the first that is too much: some of its longest words lose a letter more
    kept = [_count_kept(size, most) for size in sizes]
    excess = needed(most) - room
    for at, size in enumerate(sizes):
        if excess and kept[at] == most:
            kept[at] = _count_kept(size, most - 1)
            excess -= 1
    shown = zip(parts, sizes, kept, strict=True)
    return "".join(part if left == size else f"{part[:left]}…" for part, size, left in shown)


def _count_kept(size: int, most: int) -> int:
    """Return the letters left of a word cut to ``most``; the mark takes one place, so the first cut takes two."""
    return size if size <= most else most - 1 if size == most + 1 else most


def _measure_word(size: int, most: int) -> int:
    kept = _count_kept(size, most)
    return size if kept == size else kept + 1


def shorten_all(names: Sequence[str], width: int) -> list[str]:
    """Cut the names of one column so that as many as possible stay distinct."""
    lines = list(map(flatten_text, names))
    if all(len(line) <= width for line in lines):
        return lines
    ways = ([way(line, width) for line in lines] for way in (shorten, abbreviate))
    cut = max(ways, key=lambda texts: len(set(texts)))
    alike: dict[str, set[str]] = {}
    for line, text in zip(lines, cut, strict=True):
        alike.setdefault(text, set()).add(line)
    telling = {
        line: text for group in alike.values() if len(group) > 1 for line, text in _keep_differences(group, width)
    }
    told = [telling.get(line, text) for line, text in zip(lines, cut, strict=True)]
    return max(cut, told, key=lambda texts: len(set(texts)))


def _keep_differences(names: Collection[str], width: int) -> Iterator[tuple[str, str]]:
    """Cut names that begin and end alike, and keep the part that differs: ``m.lay…3…_weight``."""
    head, tail = _find_common_prefix(names), _find_common_prefix([name[::-1] for name in names])
    same_head = len(head.rstrip(string.digits))  # of 10 and 11 the whole number, not its last digit
    same_tail = min(len(tail.rstrip(string.digits)), min(map(len, names)) - same_head)
    for name in names:
        middle = name[same_head : len(name) - same_tail]
        room = width - len(middle) - 2
        if room < 0:
            yield name, shorten(middle, width)
            continue
        end = min(room // 2, same_tail)
        yield name, f"{name[: min(room - end, same_head)]}…{middle}…{name[len(name) - end :]}"


def _find_common_prefix(names: Collection[str]) -> str:
    """Return the common prefix: that of the first and the last in sorted order."""
    pairs = zip(min(names), max(names), strict=False)
    return "".join(letter for letter, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
