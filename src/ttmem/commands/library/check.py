# SPDX-License-Identifier: Apache-2.0
"""``ttmem.check``: a memory budget."""

from dataclasses import dataclass
from typing import Any

from ttmem.analysis import budget
from ttmem.analysis.budget import PERCENT, Amount, Limits, Verdict, parse_limit
from ttmem.analysis.failure import RunEnd, run_end
from ttmem.commands.read import Progress, Source, read


@dataclass(frozen=True, slots=True)
class BudgetCheck:
    """One verdict per limit."""

    verdicts: tuple[Verdict, ...]
    source_name: str
    ended: RunEnd | None = None
    """How the run ended if it did not come to its end; only what is for memory is a verdict."""

    @property
    def ok(self) -> bool:
        """Whether every limit holds."""
        return all(verdict.ok for verdict in self.verdicts)

    def to_json(self) -> dict[str, Any]:
        """The document of ``ttmem check --json``."""
        from ttmem.reports.check.document import CheckDocument

        return CheckDocument.of(self).to_json()


def check(
    source: Source,
    *,
    max_dram: Amount | None = None,
    max_l1: Amount | None = None,
    max_padding: Amount | None = None,
    baseline: Source | None = None,
    max_growth: Amount | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> BudgetCheck:
    """Whether a source stays within a memory budget; a run that ran out of memory does not, whatever its peaks say.

    A run that ended for another reason is judged by its memory as far as it ran. Raises ``TtmemError`` where figures
    that could change the answer are missing in a source.

    Limits are shares of a bank (``"80%"``, ``0.8``) or bytes per bank (``"700MiB"``, ``734003200``). ``max_padding`` is
    over the logical bytes alive at the DRAM peak, ``max_growth`` (2 % unless given) over the peaks of ``baseline``.
    Without any limit the usual targets hold: DRAM at most 80 % of a bank, L1 at most 90 %.
    """
    amounts = {"DRAM": max_dram, "L1": max_l1}
    peaks = {memory: None if amount is None else parse_limit(amount) for memory, amount in amounts.items()}
    for memory, limit in peaks.items():
        budget.refuse_more_than_a_bank(memory, limit)
    limits = Limits(
        memories={memory: limit for memory, limit in peaks.items() if limit is not None},
        padding=None if max_padding is None else parse_limit(max_padding, bare_unit=PERCENT),
        growth=None if max_growth is None else parse_limit(max_growth),
    )
    if not limits.memories and limits.padding is None and baseline is None:
        limits = budget.DEFAULT_LIMITS
    profile = read(source, jobs=jobs, progress=progress)
    reference = None if baseline is None else read(baseline, jobs=jobs, progress=progress)
    return BudgetCheck(tuple(budget.check(profile, limits, reference)), profile.source.name, run_end(profile))
