# SPDX-License-Identifier: Apache-2.0
"""How the reports word a diagnosis: one place, so that terminal, Markdown, page and JSON say the same."""

from ttmem.failures import BoardGuess, Diagnosis, LiveTensor, Remedy
from ttmem.reports.kit.tables import Table, name_column, number_column, text_column
from ttmem.reports.kit.units import bytes_text, counted, one_line, operation_label, shape_text, thousands

_OWNER = "tenstorrent"


def saving_text(remedy: Remedy) -> str:
    """What a remedy saves and whether that is enough, in a few words; empty when neither is known."""
    parts = []
    per_bank, whole = remedy.saves_bytes_per_bank, remedy.saves_bytes
    if per_bank is not None:
        is_of_core = whole is None or whole == per_bank
        where = "per core" if is_of_core else f"per bank, {bytes_text(whole or 0)} on the chip"
        parts.append(f"saves {bytes_text(per_bank)} {where}")
    if remedy.solves is not None:
        parts.append("enough by itself" if remedy.solves else "not enough by itself")
    return "; ".join(parts)


def thread_url(thread: str) -> str:
    """Where a thread can be read: ``tt-metal#15746`` is an issue (or pull request) of that repository."""
    repository, _, number = thread.partition("#")
    return f"https://github.com/{_OWNER}/{repository}/issues/{number}"


def board_text(board: BoardGuess) -> str:
    """Which board and build, and from what: ``n150, n300, t3k or galaxy (wormhole, likely): 12 DRAM banks; ...``."""
    if board.architecture is None:
        return ""
    listed = " or ".join(filter(None, (", ".join(board.boards[:-1]), *board.boards[-1:])))
    text = f"{listed} ({board.architecture}, {board.confidence})" if listed else f"{board.architecture} (possible)"
    details = [*(f"from {reason}" for reason in board.reasons), *board.build]
    return "; ".join([text, *details])


def figures_table(diagnosis: Diagnosis) -> Table:
    """The arithmetic; allocator figures are per bank."""
    columns = [text_column("Figure"), number_column("Bytes"), name_column("How")]
    return Table(columns, [[figure.label, figure.value, figure.note] for figure in diagnosis.arithmetic])


def place_text(diagnosis: Diagnosis) -> str:
    """Class, memory and line: ``oom/fragmented in DRAM, line 2``."""
    failure = diagnosis.failure
    text = failure.failure_class + (f" in {failure.memory}" if failure.memory else "")
    if failure.line:
        text += f", line {thousands(failure.line)}"
    return text + (" (a warning: the program went on)" if failure.is_warning else "")


def live_text(tensor: LiveTensor, *, with_name: bool = True) -> str:
    """``%5 1x32x64 (bf16), 2.00 MiB per bank, from #12 ttnn.add at model.py:41``."""
    shape = shape_text(tensor.shape, tensor.dtype) if tensor.shape else tensor.dtype
    parts = [f"{one_line(tensor.name)} {shape}".strip() if with_name else shape or "a buffer"]
    parts.append(f"{bytes_text(tensor.bytes_per_bank)} per bank")
    if tensor.is_weight:
        parts.append("a weight")
    if tensor.producer:
        made = f"from {one_line(operation_label(tensor.producer_index, tensor.producer))}"
        if with_name and tensor.location:
            made += f" at {one_line(tensor.location)}"
        if with_name and tensor.line and not tensor.location.endswith(f":{tensor.line}"):
            made += f", line {thousands(tensor.line)}"
        parts.append(made)
    return ", ".join(parts)


def advice(diagnosis: Diagnosis, most: int = 3) -> list[str]:
    """The first remedies, a line each: what to do, what it saves, who showed it."""
    lines = []
    for remedy in diagnosis.remedies[:most]:
        notes = "; ".join(filter(None, (saving_text(remedy), ", ".join(remedy.evidence[:3]))))
        lines.append(one_line(remedy.do) + (f" ({notes})" if notes else ""))
    return lines


def live_lines(diagnosis: Diagnosis, most: int, *, with_names: bool = True) -> list[str]:
    """The largest tensors that were alive, a line each, and one about the others."""
    ordered = sorted(diagnosis.live, key=lambda tensor: -tensor.bytes_per_bank)
    lines = [live_text(tensor, with_name=with_names) for tensor in ordered[:most]]
    if rest := ordered[most:]:
        left = bytes_text(sum(tensor.bytes_per_bank for tensor in rest))
        lines.append(f"{counted(len(rest), 'smaller tensor')}, {left} per bank")
    return lines
