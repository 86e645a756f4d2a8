# SPDX-License-Identifier: Apache-2.0
"""The answers of ``ttmem fit``: one prediction, several boards, and a sweep over sizes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log2

from ttmem.analysis.failure import RunEnd, failure, run_end
from ttmem.analysis.programs_l1 import programs_peak
from ttmem.base.formatting import flatten_text, format_bytes, format_percent, pluralize
from ttmem.prediction.advice import RequestChange
from ttmem.prediction.request import Capacity, OperationCounts, Prediction, find_demands
from ttmem.prediction.targets import is_script
from ttmem.reports.kit import tables
from ttmem.reports.kit.charts import Axis, Curve, LineChart, Tick, draw_svg
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import UNSET, Document, UnsetType
from ttmem.reports.kit.tables import Table, format_plain, mib_column, number_column, percent_column, text_column
from ttmem.reports.profile_document import FailureFacts, RunEndEntry, describe_end, describe_failure


class ModelPlace(Document, frozen=True):
    """An operation and its module; the index is null for what exists before the first operation."""

    index: int | None
    name: str
    module: str


class FitPeak(Document, frozen=True, kw_only=True):
    """The fullest moment of one memory, failed allocations included: it may exceed 100 percent."""

    peak_bytes_per_bank: int
    bytes_per_bank: int
    banks: int
    peak_percent: float | None
    at: ModelPlace
    peak_with_programs_bytes_per_core: int | UnsetType = UNSET
    """L1 only: the worst operation's tensors with its own buffers."""


class FitDocument(Document, frozen=True, tag_field="schema", tag="ttmem.fit/1"):
    """The prediction whether a model fits a board."""

    name: str
    target: str
    fits: bool
    board: str
    chips: int
    peak: Mapping[str, FitPeak]
    weights_bytes: int
    """Per chip, as are the two below."""
    kv_cache_bytes: int
    activations_peak_bytes: int
    constants_bytes: int
    """Tables and buffers that persist and are neither weights nor cache."""
    reserve_bytes: int
    """Bytes that a recipe keeps free, and trace regions."""
    first_failure: FailureFacts | None
    ended: RunEndEntry | None
    """For a script that did not complete. If the reason was not memory, it fits as far as it ran."""
    advice: Sequence[RequestChange]
    """Changes that would help, each predicted again; the smallest change that fits first."""
    assumed: Sequence[str]
    operations: OperationCounts
    engine: str
    error_bound_percent: float | None
    """The measured distance of the DRAM peak from that of real ports; null where it was not measured."""
    interval_bytes: tuple[int, int] | None
    """The range of the DRAM peak per chip, where placement is the author's choice."""
    as_loaded_bytes: int
    """Additional bytes when a loader uploads kernels and norms as torch has them."""
    max: Mapping[str, int] | UnsetType = UNSET
    """The largest that fits, where that was searched."""
    capacity: Capacity | UnsetType = UNSET
    """For a language model with a recipe: the users and contexts that would fit."""


class FitBoards(Document, frozen=True, tag_field="schema", tag="ttmem.fit-boards/1"):
    """The same model on several boards."""

    boards: Sequence[FitDocument]


class FitPoint(Document, frozen=True):
    """A combination of a sweep."""

    at: Mapping[str, int]
    fits: bool
    peak_bytes_per_bank: int
    """Of DRAM."""
    peak_percent: float | None
    weights_bytes: int
    activations_peak_bytes: int
    failure_class: str | None


class FitSweep(Document, frozen=True, tag_field="schema", tag="ttmem.fit-sweep/1"):
    """The same model over a range of batches, sizes or contexts."""

    name: str
    board: str
    engine: str
    points: Sequence[FitPoint]


def build_sweep(found: Sequence[tuple[dict[str, int], Prediction]]) -> FitSweep:
    """Build the document from the predictions of all combinations."""
    listed = []
    for place, prediction in found:
        dram, failed = find_demands(prediction)["DRAM"], failure(prediction.profile)
        listed.append(
            FitPoint(
                at=place,
                fits=prediction.fits,
                peak_bytes_per_bank=dram.peak_bytes_per_bank,
                peak_percent=dram.peak_percent,
                weights_bytes=prediction.weights_bytes,
                activations_peak_bytes=prediction.activations_peak_bytes,
                failure_class=failed.failure_class if failed else None,
            )
        )
    first = found[0][1]
    return FitSweep(name=first.profile.name, board=first.request.board, engine=first.engine, points=listed)


def build_document(
    prediction: Prediction,
    advice: Sequence[RequestChange] = (),
    maximum: dict[str, int] | None = None,
    capacity: Capacity | None = None,
) -> FitDocument:
    """Build the document of a prediction, with the searches that went with it."""
    failed = None if prediction.fits else failure(prediction.profile)
    return FitDocument(
        name=prediction.profile.name,
        target=prediction.request.target,
        fits=prediction.fits,
        board=prediction.request.board,
        chips=prediction.chips,
        peak=build_peaks(prediction),
        weights_bytes=prediction.weights_bytes,
        kv_cache_bytes=prediction.kv_cache_bytes,
        activations_peak_bytes=prediction.activations_peak_bytes,
        constants_bytes=prediction.constants_bytes,
        reserve_bytes=prediction.reserve_bytes,
        first_failure=describe_failure(failed) if failed else None,
        ended=describe_end(run_end(prediction.profile)),
        advice=tuple(advice),
        assumed=prediction.assumed,
        operations=prediction.operations,
        engine=prediction.engine,
        error_bound_percent=prediction.error_bound_percent,
        interval_bytes=prediction.interval_bytes,
        as_loaded_bytes=prediction.as_loaded_bytes,
        max=UNSET if maximum is None else maximum,
        capacity=capacity or UNSET,
    )


def build_peaks(prediction: Prediction) -> dict[str, FitPeak]:
    """Build the peaks of DRAM and L1, the two memories that a model can be too large for."""
    programs = programs_peak(prediction.profile)
    return {
        memory: FitPeak(
            peak_bytes_per_bank=one.peak_bytes_per_bank,
            bytes_per_bank=one.bytes_per_bank,
            banks=one.banks,
            peak_percent=one.peak_percent,
            at=ModelPlace(index=one.index, name=one.name, module=one.module),
            peak_with_programs_bytes_per_core=programs.total_bytes_per_core if programs and memory == "L1" else UNSET,
        )
        for memory, one in find_demands(prediction).items()
        if memory in ("DRAM", "L1")
    }


_BAR = 20
_BOARD_COLUMNS = (
    text_column("board"),
    text_column("fits"),
    percent_column("DRAM"),
    mib_column("peak MiB per bank"),
    text_column("first failure"),
)
_MOST_UNSUPPORTED = 8


def render_terminal(answer: FitDocument, *, width: int = 100, color: bool = False) -> str:
    """Render the verdict first and the assumptions last."""
    report = TextReport(width, color=color)
    verdict = f"fits {answer.board}" if answer.fits else f"DOES NOT FIT {answer.board}"
    if answer.fits and answer.operations.unknown:
        unknown = pluralize(answer.operations.unknown, "operation")
        verdict += f" as far as is known: for {unknown} only the results are counted"
    if answer.fits and answer.ended:
        end = RunEnd(
            answer.ended.error, answer.ended.message, answer.ended.location, is_for_memory=False, ended="the script"
        )
        verdict += f" as far as it ran; {flatten_text(end.sentence)}"
    chips = f" ({answer.chips} chips; figures are per chip)" if answer.chips > 1 else ""
    report.print(f"{flatten_text(answer.name)} {verdict}{chips}", style="bold green" if answer.fits else "bold red")
    report.print()
    for memory, peak in answer.peak.items():
        report.print(*_describe_peak(memory, peak))
    parts = (
        ("weights", answer.weights_bytes),
        ("KV cache", answer.kv_cache_bytes),
        ("activations", answer.activations_peak_bytes),
        ("tables", answer.constants_bytes),
        ("reserve", answer.reserve_bytes),
    )
    for name, amount in parts:
        if amount or name in ("weights", "activations"):
            report.print(f"{name:<13}{format_bytes(amount)}")
    if answer.interval_bytes:
        low, high = map(format_bytes, answer.interval_bytes)
        report.print(f"{'DRAM peak':<13}between {low} and {high}:", f"{'':<13}placement is the author's choice")
    for name, value in (answer.max or {}).items():
        report.print(f"{'largest':<13}{name} {value}")
    if answer.capacity:
        report.print("", *_describe_capacity(answer.capacity))
    if failed := answer.first_failure:
        place = f" at {failed.operation.name} ({failed.operation.location})" if failed.operation else ""
        report.print("", flatten_text(f"fails{place}: {failed.failure_class}"), f"  {flatten_text(failed.message)}")
    if answer.advice:
        report.print("", "what would change it (each was fitted)")
        for one in answer.advice:
            fits = "fits" if one.fits else "does not fit"
            report.print(f"  {fits:<13}{one.do}: {format_bytes(one.peak_bytes_per_bank)} per bank")
    report.print("", *_describe_trust(answer))
    return report.render()


def render_boards(answer: FitBoards) -> str:
    """Render one line per board."""
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
    return format_plain(Table(_BOARD_COLUMNS, rows))


def _describe_peak(memory: str, peak: FitPeak) -> list[str]:
    """List the fill in figures, and below it the operation."""
    share = min(peak.peak_percent or 0.0, 100.0)
    bar = "█" * round(_BAR * share / 100)
    amounts = f"{format_bytes(peak.peak_bytes_per_bank)} of {format_bytes(peak.bytes_per_bank)} per bank"
    lines = [f"{memory:<13}{bar:░<{_BAR}} {format_percent(peak.peak_percent)}  {amounts}"]
    if place := f"{peak.at.name} ({peak.at.module})" if peak.at.module else peak.at.name:
        lines.append(f"{'':<13}at {flatten_text(place)}")
    return lines


def _describe_capacity(capacity: Capacity) -> list[str]:
    """List the contexts that would fit, as a table whose last column is the plot."""
    most = max((point.context for point in capacity.points), default=0) or 1
    users = f"{capacity.users} user{'s' * (capacity.users > 1)}"
    found = f"largest context for {users}: {capacity.largest_context:,} tokens"
    lines = [found, f"most users of {capacity.context:,} tokens: {capacity.largest_users:,}"]
    lines.append(f"{'users':>7}{'context':>12}")
    for point in capacity.points:
        bar = "█" * round(_BAR * point.context / most)
        ends = "" if point.is_limit else " (the model's maximum)"
        lines.append(f"{point.users:>7}{point.context:>12,}  {bar}{ends}")
    return lines


def _describe_trust(answer: FitDocument) -> list[str]:
    """List how far the answer can be trusted."""
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
    return [flatten_text(line) for line in (*lines, *(f"assumed: {text}" for text in answer.assumed))]


_MOST_PERCENT = 120.0


def build_sweep_table(answer: FitSweep) -> Table:
    """Build a table with one row per point."""
    names = list(answer.points[0].at)
    columns = [
        *(number_column(name) for name in names),
        text_column("fits"),
        percent_column("DRAM"),
        mib_column("DRAM peak MiB per bank"),
        text_column("first failure"),
    ]
    rows = [
        (
            *one.at.values(),
            "yes" if one.fits else "NO",
            one.peak_percent,
            one.peak_bytes_per_bank,
            one.failure_class,
        )
        for one in answer.points
    ]
    return Table(columns, rows)


def render_sweep_terminal(answer: FitSweep) -> str:
    return tables.format_plain(build_sweep_table(answer))


def render_sweep_csv(answer: FitSweep) -> str:
    """Render CSV in bytes."""
    names = list(answer.points[0].at)
    lines = [",".join((*names, "fits", "peak_bytes_per_bank", "peak_percent", "weights_bytes", "failure_class"))]
    lines += [
        tables.format_csv_line(
            map(
                str,
                (
                    *one.at.values(),
                    str(one.fits).lower(),
                    one.peak_bytes_per_bank,
                    one.peak_percent,
                    one.weights_bytes,
                    one.failure_class or "",
                ),
            )
        )
        for one in answer.points
    ]
    return "\n".join(line.rstrip("\n") for line in lines)


def render_sweep_svg(answer: FitSweep) -> str:
    """Draw the fill of DRAM over the quantity with most values, in powers of two; one line per combination."""
    names = list(answer.points[0].at)
    across = max(names, key=lambda name: len({one.at[name] for one in answer.points}))
    curves: dict[str, list[FitPoint]] = {}
    for one in answer.points:
        rest = ", ".join(f"{name} {one.at[name]}" for name in names if name != across)
        curves.setdefault(rest or answer.name, []).append(one)
    values = sorted({one.at[across] for one in answer.points})
    top = min(max(100.0, *((one.peak_percent or 0.0) for one in answer.points)), _MOST_PERCENT)
    x = Axis(
        across, log2(values[0]), max(log2(values[-1]), log2(values[0]) + 1), [Tick(log2(v), f"{v}") for v in values]
    )
    y = Axis("DRAM, % of a bank", 0.0, top, [Tick(float(at), f"{at}") for at in range(0, int(top) + 1, 20)])
    lines = [
        Curve(
            label,
            [(log2(one.at[across]), min(one.peak_percent or 0.0, top)) for one in found],
            [f"{one.at[across]}: {'fits' if one.fits else 'does not fit'}" for one in found],
        )
        for label, found in curves.items()
    ]
    return draw_svg(LineChart(f"{answer.name} on {answer.board}", x, y, lines))
