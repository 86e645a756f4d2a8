# SPDX-License-Identifier: Apache-2.0
"""``ttmem.tune``: the smallest set of changes that makes a captured run fit, with a proof on the mock."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ttmem.analysis.budget import PERCENT, Amount, parse_limit, refuse_more_than_a_bank
from ttmem.analysis.failure import RunEnd, run_end
from ttmem.analysis.findings import Finding, findings
from ttmem.base.errors import BadInputError, TtmemError
from ttmem.commands.read import Source, read
from ttmem.engines.interpreters import chosen_python
from ttmem.profile.model import MEMORIES, Profile
from ttmem.readers.sources import locate
from ttmem.tuning.apply_edit import apply
from ttmem.tuning.captured_run import History, history
from ttmem.tuning.edited_run import Applied, as_captured
from ttmem.tuning.figures import DRAM, L1, Figures, FrontierPoint, Goal, figures, is_reached
from ttmem.tuning.groups import chosen
from ttmem.tuning.patch import Patch, patch
from ttmem.tuning.programs import with_programs
from ttmem.tuning.search import Found, Step, search
from ttmem.tuning.verify import (
    Dropped,
    Verified,
    another_end,
    blamed,
    certainty,
    command_of,
    compare,
    gets_further,
    never_ran,
    plan,
    run_again,
)

if TYPE_CHECKING:
    from ttmem.reports.tune.document import TuneDocument

FITS = "fits"
_SCRIPT_HINT = "write --script 'model.py --batch 4'"
_MOST_ROUNDS = 12
"""How often a script is run again: to tune on where it gets further, or without an edit that broke it."""


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
    captured: History
    """The run as it was; ``history`` is that of the last proof where it got further."""

    @property
    def applied(self) -> tuple[Applied, ...]:
        """The edits."""
        return tuple(step.applied for step in self.steps)

    def patch(self) -> Patch:
        """The edits as a unified diff."""
        return patch(self.history, self.applied)

    def patched(self) -> Figures:
        """The run with the edits of the patch alone."""
        left_out = set(self.patch().left_out)
        if not left_out:
            return self.after
        draft = as_captured(self.captured)
        for applied in self.applied:
            if str(applied.edit) not in left_out:
                with suppress(TtmemError):  # of an operation that the captured run never came to
                    draft, _ = apply(draft, applied.edit)
        return figures(with_programs(draft)[0])

    def document(self, *, patched: bool = False) -> TuneDocument:
        """The answer of ``ttmem tune``; ``patched`` adds the figures of the patch alone."""
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
            patched=self.patched() if patched else None,
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
    script: str | None = None,
    python: str | None = None,
    ttnn: str | None = None,
    timeout: float | None = None,
    output: int | None = None,
) -> Tuned:
    """Search edits of a captured run, the cheapest kinds first.

    ``target="fits"`` wants that nothing fails for want of memory, ``max_dram`` and ``max_l1`` are limits as for
    ``ttmem.check``; with none of them the edits that lower the peaks most are given. ``verify`` runs the script
    again on the mock with the edits made at its calls, ``timeout`` seconds at most; when it then fails further on, the
    search goes on from there, and when it ends otherwise than without the edits, an edit is given up. ``script`` is the
    command line of what is run; a file of another origin than ``ttmem run`` here does not choose it.
    """
    if target not in (None, FITS):
        raise BadInputError(f"'{target}' is no target", hint=f"write --target {FITS}, --max-dram 80% or --max-l1 70%")
    profile = read(source)
    run = history(profile)
    goal = Goal(target == FITS, _limits(run, {DRAM: max_dram, L1: max_l1}))
    answer = _answer(run, goal, most, frozenset(), tuple(findings(profile)))
    if not verify:
        return answer
    settings = {
        "command": command_to_verify(source, script, profile),
        "python": chosen_python(python, ttnn),
        "output": output,
        "timeout_seconds": timeout,
    }
    return _Proof(answer, goal, most, settings).run()


def command_to_verify(source: Source, script: str | None, profile: Profile | None = None) -> list[str]:
    """What ``verify`` runs: the words of ``script``, else what the capture names where this user captured it."""
    if script is not None:
        try:
            words = shlex.split(script)
        except ValueError as error:  # a quote that is not closed
            raise BadInputError(f"'{script}' is no command line: {error}", hint=_SCRIPT_HINT) from None
        if not words:
            raise BadInputError("no script was named", hint=_SCRIPT_HINT)
        return words
    words = command_of(profile or read(source))
    if not isinstance(source, Profile):
        located = locate(source)
        if located.stored is None or located.origin != os.path.realpath(words[0]):
            raise BadInputError(
                f"'{source}' was not captured and stored by 'ttmem run' here: it does not choose which script is run",
                hint=f"if this is what you want to run: --script {shlex.quote(shlex.join(words))}",
            )
    return words


def _answer(
    run: History, goal: Goal, most: int | None, refused: frozenset[str], found_besides: tuple[Finding, ...]
) -> Tuned:
    """What a search finds without the edits that were given up."""
    found = search(run, goal, most=most, start=replace(as_captured(run), refused=refused))
    first = (found.before, found.after, found.frontier)
    return Tuned(run, found.steps, found.reached, *first, found_besides, None, found.tried, found, run)


def _limits(run: History, given: dict[str, Amount | None]) -> dict[str, int] | None:
    """In bytes per bank; a share is one of the bank."""
    limits: dict[str, int] = {}
    for memory, amount in given.items():
        if amount is not None:
            limit = parse_limit(amount)
            refuse_more_than_a_bank(memory, limit)
            bank = run.pools[MEMORIES.index(memory)][2]
            limits[memory] = int(limit.amount * bank / 100 if limit.unit == PERCENT else limit.amount)
    return limits or None


class _Proof:
    """Runs the script with the edits. Where it gets further, the edits are meant there too, and others may be needed;
    where it ends otherwise than without them, the edit that is to blame is given up and the search begins anew."""

    def __init__(self, answer: Tuned, goal: Goal, most: int | None, settings: dict[str, Any]) -> None:
        self.first, self.goal, self.most, self.settings = answer, goal, most, settings
        self.dropped: dict[str, Dropped] = {}
        self.ends: set[tuple[str, str]] = set()
        """Error and place of ends that no edit could be blamed for with certainty."""
        self.rounds = _MOST_ROUNDS

    def run(self) -> Tuned:
        answer = self.first
        while True:
            answer, broken = self._proven(answer)
            if broken is None or not self.rounds:
                return answer
            self.dropped[broken.edit] = broken
            again = _answer(self.first.history, self.goal, self.most, frozenset(self.dropped), self.first.findings)
            verified = answer.verified
            assert verified is not None
            answer = replace(again, tried=answer.tried + again.tried)
            if not answer.applied:
                return replace(answer, verified=replace(verified, dropped=tuple(self.dropped.values())))

    def _proven(self, answer: Tuned) -> tuple[Tuned, Dropped | None]:
        """The answer with its proof, and the edit that broke the script."""
        start, tried = answer.history, plan(answer.history, answer.applied)
        kept = True
        while self.rounds:
            self.rounds -= 1
            again = run_again(start.profile, tried, **self.settings)
            try:
                run = history(again, start.timeline.rank)
            except TtmemError:
                answer = replace(answer, reached=False, verified=self._seen(never_ran(len(start.operations), again)))
                return answer, self._blamed(answer, again)
            found = compare(
                answer.found.draft,
                answer.after,
                tried,
                confidence=certainty(answer.applied),
                run=run,
                programs_doubt=answer.found.programs_doubt,
            )
            kept = kept and found.agrees is not False
            answer = replace(answer, verified=self._seen(found if kept else replace(found, agrees=False)))
            if another_end(start, again) is not None and found.agrees is False:
                broken = self._blamed(answer, again)
                if broken is not None or not self._is_own_end(again):
                    return replace(answer, reached=False), broken
                answer = replace(answer, verified=self._seen(replace(found, agrees=None)))
            if not gets_further(answer.history, run):
                break
            answer, more = _further(answer, run, self.goal, self.most)
            if not more:
                break
            tried = tried.then(plan(run, more))
        verified = answer.verified
        if verified is None or verified.not_made:
            return answer, None  # what the edits bring that were not made is a promise still
        measured = {DRAM: verified.dram_peak_bytes_per_bank, L1: verified.l1_peak_with_programs_bytes_per_core}
        return replace(answer, reached=is_reached(self.goal, fits=verified.fits, peaks=measured)), None

    def _seen(self, verified: Verified) -> Verified:
        return replace(verified, dropped=tuple(self.dropped.values()))

    def _blamed(self, answer: Tuned, again: Profile) -> Dropped | None:
        """The edit to give up: one that has to do with the line, else the riskiest, once for each end."""
        found = blamed(answer.applied, again)
        end = run_end(again)
        if found is None or end is None:
            return None
        applied, is_certain = found
        if not is_certain and (end.error, end.location) in self.ends and not _is_crash(end):
            return None  # the same without the edit that was given up for it
        if not is_certain:
            self.ends.add((end.error, end.location))
        return Dropped(str(applied.edit), end.sentence)

    def _is_own_end(self, again: Profile) -> bool:
        end = run_end(again)
        return end is not None and not _is_crash(end) and (end.error, end.location) in self.ends


def _is_crash(end: RunEnd) -> bool:
    """Whether a signal ended the run: several edits may each free what is read there, so no such end is its own."""
    return end.error.startswith("SIG")


def _further(answer: Tuned, run: History, goal: Goal, most: int | None) -> tuple[Tuned, list[Applied]]:
    """The answer for a run that got further with its edits, and what is to be changed there besides."""
    draft, more = replace(as_captured(run), refused=answer.found.draft.refused), list[Applied]()
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
