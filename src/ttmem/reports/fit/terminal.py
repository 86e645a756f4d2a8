# SPDX-License-Identifier: Apache-2.0
"""Whether a model fits, for a person: the verdict, what memory goes to, what to change, what was assumed."""

from collections import Counter

from ttmem.analysis.failure import RunEnd
from ttmem.prediction.request import Capacity
from ttmem.prediction.targets import is_script
from ttmem.reports.fit.document import FitBoards, FitDocument, FitPeak
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, mib_column, percent_column, plain, text_column
from ttmem.reports.kit.units import bytes_text, counted, one_line, percent

_BAR = 20
_BOARD_COLUMNS = (
    text_column("board"),
    text_column("fits"),
    percent_column("DRAM"),
    mib_column("peak MiB per bank"),
    text_column("first failure"),
)
_MOST_UNSUPPORTED = 8


def render(answer: FitDocument, *, width: int = 100, color: bool = False) -> str:
    """The verdict first, the doubts last."""
    report = TextReport(width, color=color)
    verdict = f"fits {answer.board}" if answer.fits else f"DOES NOT FIT {answer.board}"
    if answer.fits and answer.operations.unknown:
        unknown = counted(answer.operations.unknown, "operation")
        verdict += f" as far as is known: of {unknown} only the results are counted"
    if answer.fits and answer.ended:
        end = RunEnd(
            answer.ended.error, answer.ended.message, answer.ended.location, is_for_memory=False, ended="the script"
        )
        verdict += f" as far as it ran; {one_line(end.sentence)}"
    chips = f" ({answer.chips} chips; figures are per chip)" if answer.chips > 1 else ""
    report.print(f"{one_line(answer.name)} {verdict}{chips}", style="bold green" if answer.fits else "bold red")
    report.print()
    for memory, peak in answer.peak.items():
        report.print(*_peak(memory, peak))
    parts = (
        ("weights", answer.weights_bytes),
        ("KV cache", answer.kv_cache_bytes),
        ("activations", answer.activations_peak_bytes),
        ("tables", answer.constants_bytes),
        ("reserve", answer.reserve_bytes),
    )
    for name, amount in parts:
        if amount or name in ("weights", "activations"):
            report.print(f"{name:<13}{bytes_text(amount)}")
    if answer.interval_bytes:
        low, high = map(bytes_text, answer.interval_bytes)
        report.print(f"{'DRAM peak':<13}between {low} and {high}:", f"{'':<13}placement is the author's choice")
    for name, value in (answer.max or {}).items():
        report.print(f"{'largest':<13}{name} {value}")
    if answer.capacity:
        report.print("", *_capacity(answer.capacity))
    if failed := answer.first_failure:
        place = f" at {failed.operation.name} ({failed.operation.location})" if failed.operation else ""
        report.print("", one_line(f"fails{place}: {failed.failure_class}"), f"  {one_line(failed.message)}")
    if answer.advice:
        report.print("", "what would change it (each was fitted)")
        for one in answer.advice:
            fits = "fits" if one.fits else "does not fit"
            report.print(f"  {fits:<13}{one.do}: {bytes_text(one.peak_bytes_per_bank)} per bank")
    report.print("", *_trust(answer))
    return report.text()


def boards_table(answer: FitBoards) -> str:
    """A line per board."""
    rows = [
        (
            one.board,
            "yes" if one.fits else "NO",
            one.peak["DRAM"].peak_percent if "DRAM" in one.peak else None,
            one.peak["DRAM"].peak_bytes_per_bank if "DRAM" in one.peak else None,
            " in ".join(filter(None, (one.first_failure.failure_class, one.first_failure.memory)))
            if one.first_failure
            else None,
        )
        for one in answer.boards
    ]
    return plain(Table(_BOARD_COLUMNS, rows))


def _peak(memory: str, peak: FitPeak) -> list[str]:
    """How full, in figures, and below it where."""
    share = min(peak.peak_percent or 0.0, 100.0)
    bar = "█" * round(_BAR * share / 100)
    amounts = f"{bytes_text(peak.peak_bytes_per_bank)} of {bytes_text(peak.bytes_per_bank)} per bank"
    lines = [f"{memory:<13}{bar:░<{_BAR}} {percent(peak.peak_percent)}  {amounts}"]
    if place := f"{peak.at.name} ({peak.at.module})" if peak.at.module else peak.at.name:
        lines.append(f"{'':<13}at {one_line(place)}")
    return lines


def _capacity(capacity: Capacity) -> list[str]:
    """What else would fit, as a table whose last column is the plot."""
    most = max((point.context for point in capacity.points), default=0) or 1
    users = f"{capacity.users} user{'s' * (capacity.users > 1)}"
    found = f"largest context for {users}: {capacity.largest_context:,} tokens"
    lines = [found, f"most users of {capacity.context:,} tokens: {capacity.largest_users:,}"]
    lines.append(f"{'users':>7}{'context':>12}")
    for point in capacity.points:
        bar = "█" * round(_BAR * point.context / most)
        ends = "" if point.is_limit else " (all that the model has)"
        lines.append(f"{point.users:>7}{point.context:>12,}  {bar}{ends}")
    return lines


def _trust(answer: FitDocument) -> list[str]:
    """How far it can be trusted."""
    counts = answer.operations
    total = counts.exact + counts.bounded + counts.unknown
    known = f"engine {answer.engine}; {counts.exact} of {total} operations exact"
    known += f", {counts.bounded} bounded" if counts.bounded else ""
    known += f", {counts.unknown} unknown" if counts.unknown else ""
    lines = [known]
    if answer.error_bound_percent is not None and not is_script(answer.target):
        lines.append(f"measured ports matched this DRAM peak to within {answer.error_bound_percent:g} %")
    unsupported = Counter(counts.unsupported)
    for text, count in list(unsupported.items())[:_MOST_UNSUPPORTED]:
        lines.append(f"only results counted: {text}" + (f" ({count} times)" if count > 1 else ""))
    if len(unsupported) > _MOST_UNSUPPORTED:
        lines.append(f"... and {len(unsupported) - _MOST_UNSUPPORTED} more (--json has all)")
    return [one_line(line) for line in (*lines, *(f"assumed: {text}" for text in answer.assumed))]
