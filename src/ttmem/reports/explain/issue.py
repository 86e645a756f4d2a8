# SPDX-License-Identifier: Apache-2.0
"""A diagnosis as an issue report for a maintainer: everything one would ask for, nothing private."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ttmem._version import __version__
from ttmem.explain import Diagnosis
from ttmem.reports.explain.privacy import without_private
from ttmem.reports.explain.sentences import (
    board_text,
    figures_table,
    live_lines,
    saving_text,
    thread_url,
)
from ttmem.reports.kit.tables import markdown
from ttmem.reports.kit.units import one_line

_MOST_LIVE = 15
_MOST_REMEDIES = 5
_ASKED_FOR = (
    "ttnn or tt-metal version (or commit), and whether the build has the profiler",
    "board, firmware and driver versions (`tt-smi -s`)",
    "how the device was opened: l1_small_size, trace_region_size, worker_l1_size, dispatch",
    "the smallest script that shows it, with shapes, data types and memory configs",
    "whether it passed before, and with which version",
)


def render(diagnoses: Sequence[Diagnosis], *, private_names: Iterable[str] = ()) -> str:
    """Markdown; whatever came out of the user's text is freed of paths, users and hosts."""
    names = tuple(private_names)
    return "\n".join(line for diagnosis in diagnoses for line in (*_report(diagnosis, names), "")).rstrip() + "\n"


def _report(diagnosis: Diagnosis, names: tuple[str, ...]) -> Iterator[str]:
    def public(text: str) -> str:
        return without_private(text, names=names)

    failure = diagnosis.failure
    memory = f" ({failure.memory})" if failure.memory else ""
    yield f"# {failure.failure_class}{memory}: {public(one_line(diagnosis.headline))}"
    yield from ("", "## Message", "", "```text", public(one_line(failure.message)).replace("```", "'''"), "```", "")
    rows = [
        ("Class", f"{failure.failure_class}, {diagnosis.confidence}"),
        ("Raised at", failure.texts.get("file", "")),
        ("Operation", diagnosis.context.operation),
        ("Test", re.sub(r"^[^\s\[]*/", "", diagnosis.context.test)),
        ("Board and build (inferred)", board_text(diagnosis.board)),
        ("Tensor (inferred)", diagnosis.tensor.text if diagnosis.tensor else ""),
        ("Settings named in the log", ", ".join(f"{k}={v}" for k, v in diagnosis.context.settings.items())),
    ]
    yield from (f"- {label}: {public(one_line(value))}" for label, value in rows if value)
    if diagnosis.arithmetic:
        yield from ("", "## Figures", "", *markdown(figures_table(diagnosis)))
    if failure.numbers:
        yield from ("", f"As printed: {', '.join(f'{name} {value}' for name, value in failure.numbers.items())}.")
    if diagnosis.findings:
        yield from ("", "## What the figures say", "")
        yield from (f"- {public(one_line(finding.text))}" for finding in diagnosis.findings)
    if diagnosis.live:
        yield from ("", "## Alive when it failed", "")
        # Names of tensors are names of a model that may not be public; shapes and producers are what helps.
        yield from (f"- {public(line)}" for line in live_lines(diagnosis, _MOST_LIVE, with_names=False))
    if diagnosis.context.frames:
        yield from ("", "## Backtrace, innermost first", "", "```text")
        yield from (public(frame) for frame in diagnosis.context.frames)
        yield "```"
    if diagnosis.remedies:
        yield from ("", "## Known remedies for this class", "")
        for remedy in diagnosis.remedies[:_MOST_REMEDIES]:
            saving = saving_text(remedy)
            threads = ", ".join(f"[{thread}]({thread_url(thread)})" for thread in remedy.evidence)
            tail = f" ({saving})" if saving else ""
            yield f"- [ ] {public(one_line(remedy.do))}{tail}" + (f" - {threads}" if threads else "")
    yield from ("", "## To be added by hand", "")
    yield from (f"- [ ] {point}" for point in _ASKED_FOR)
    yield from ("", f"Written by ttmem {__version__} from the failure's text; paths, users and hosts are left out.")
