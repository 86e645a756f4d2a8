# SPDX-License-Identifier: Apache-2.0
"""``ttmem.tune``: the smallest set of changes that makes a captured run fit, with a proof on the mock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ttmem._errors import BadInputError, TtmemError
from ttmem.analysis.budget import PERCENT, Amount, parse_limit
from ttmem.analysis.findings import Finding, findings
from ttmem.engines.interpreters import chosen_python
from ttmem.library.read import Source, read
from ttmem.profile import MEMORIES, Profile
from ttmem.tune.applied import Applied
from ttmem.tune.applying import apply
from ttmem.tune.draft import as_captured
from ttmem.tune.figures import DRAM, L1, Figures
from ttmem.tune.groups import chosen
from ttmem.tune.history import History, history
from ttmem.tune.patching import Patch, patch
from ttmem.tune.search import Found, FrontierPoint, Goal, Step, is_reached, search
from ttmem.tune.verifying import Plan, Verified, certainty, compare, gets_further, plan, run_again

if TYPE_CHECKING:
    from ttmem.reports.tune.document import TuneDocument

FITS = "fits"
_MOST_ROUNDS = 12
"""How often a run that gets further and fails again is tuned on from there."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """What to change, and what that brings."""

    history: History
    steps: tuple[Step, ...]
    reached: bool
    before: Figures
    after: Figures
    frontier: tuple[FrontierPoint, ...]
    findings: tuple[Finding, ...]
    verified: Verified | None
    tried: int
    found: Found
    """The last search: its draft describes the edits."""

    @property
    def applied(self) -> tuple[Applied, ...]:
        """The edits."""
        return tuple(step.applied for step in self.steps)

    def patch(self) -> Patch:
        """The edits as a unified diff."""
        return patch(self.history, self.applied)

    def document(self) -> TuneDocument:
        """The answer of ``ttmem tune``."""
        from ttmem.reports.tune.document import document

        return document(
            reached=self.reached,
            before=self.before,
            after=self.after,
            steps=self.steps,
            frontier=self.frontier,
            findings=self.findings,
            draft=self.found.draft,
            verified=self.verified,
            patch=self.patch(),
            tried=self.tried,
            proven_smallest=self.found.proven_smallest,
            programs_doubt=self.found.programs_doubt,
        )

    def to_json(self) -> dict[str, Any]:
        """The document of ``ttmem tune --json``."""
        return self.document().to_json()


def tune(
    source: Source,
    *,
    target: str | None = None,
    max_dram: Amount | None = None,
    max_l1: Amount | None = None,
    most: int | None = None,
    verify: bool = False,
    python: str | None = None,
    ttnn: str | None = None,
    output: int | None = None,
) -> Tuned:
    """Search edits of a captured run, the cheapest kinds first.

    ``target="fits"`` wants that nothing fails for want of memory, ``max_dram`` and ``max_l1`` are limits as for
    ``ttmem.check``; with none of them the edits that lower the peaks most are given. ``verify`` runs the script
    again on the mock with the edits made at its calls; when it then fails further on, the search goes on from there.
    """
    if target not in (None, FITS):
        raise BadInputError(f"'{target}' is no target", hint=f"write --target {FITS}, --max-dram 80% or --max-l1 70%")
    profile = read(source)
    run = history(profile)
    goal = Goal(target == FITS, _limits(run, {DRAM: max_dram, L1: max_l1}))
    found = search(run, goal, most=most)
    answer = Tuned(
        run,
        found.steps,
        found.reached,
        found.before,
        found.after,
        found.frontier,
        tuple(findings(profile)),
        None,
        found.tried,
        found,
    )
    if not verify:
        return answer
    return _verified(answer, profile, goal, most, chosen_python(python, ttnn), output)


def _limits(run: History, given: dict[str, Amount | None]) -> dict[str, int] | None:
    """In bytes per bank; a share is one of the bank."""
    limits: dict[str, int] = {}
    for memory, amount in given.items():
        if amount is not None:
            limit = parse_limit(amount)
            bank = run.pools[MEMORIES.index(memory)][2]
            limits[memory] = int(limit.amount * bank / 100 if limit.unit == PERCENT else limit.amount)
    return limits or None


def _verified(
    answer: Tuned, profile: Profile, goal: Goal, most: int | None, python: str | None, output: int | None
) -> Tuned:
    """Run it. Where it gets further than before, the edits are meant there too, and others may be needed."""
    tried: Plan = plan(answer.history, answer.applied)
    kept = True
    for _ in range(_MOST_ROUNDS):
        again = run_again(profile, tried, python=python, output=output)
        run = history(again, answer.history.timeline.rank)
        found = compare(
            answer.found.draft,
            answer.after,
            tried,
            confidence=certainty(answer.applied),
            run=run,
            programs_doubt=answer.found.programs_doubt,
        )
        kept = kept and found.agrees is not False
        answer = replace(answer, verified=found if kept else replace(found, agrees=False))
        if not gets_further(answer.history, run):
            break
        answer, more = _further(answer, run, goal, most)
        if not more:
            break
        tried = tried.then(plan(run, more))
    verified = answer.verified
    if verified is None or verified.not_made:
        return answer  # what the edits bring that were not made is a promise still
    measured = {DRAM: verified.dram_peak_bytes_per_bank, L1: verified.l1_peak_with_programs_bytes_per_core}
    return replace(answer, reached=is_reached(goal, fits=verified.fits, peaks=measured))


def _further(answer: Tuned, run: History, goal: Goal, most: int | None) -> tuple[Tuned, list[Applied]]:
    """The answer for a run that got further with its edits, and what is to be changed there besides."""
    draft, more = as_captured(run), list[Applied]()
    for one in answer.applied:
        try:
            draft, applied = apply(draft, one.edit)
        except TtmemError:
            continue  # it is made already, or the tensor is not there any more
        more.append(applied)
    found = search(run, goal, most=most, start=draft)
    steps = {str(step.applied.edit): step for step in (*answer.steps, *found.steps)}
    told = tuple(replace(step, applied=_meant(run, step.applied)) for step in steps.values())
    more += [step.applied for step in found.steps]
    answer = replace(
        answer,
        history=run,
        steps=told,
        reached=found.reached,
        after=found.after,
        frontier=(*answer.frontier, *found.frontier[1:]),
        tried=answer.tried + found.tried,
        found=found,
    )
    return answer, more


def _meant(run: History, applied: Applied) -> Applied:
    """The same edit, of the tensors of another run."""
    try:
        return replace(applied, groups=tuple(chosen(run, applied.edit))) if applied.groups else applied
    except TtmemError:
        return applied  # made in that run already: it is told as it was found
