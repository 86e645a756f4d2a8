# SPDX-License-Identifier: Apache-2.0
"""A pytest log on the terminal's own terms: verbose lines, the FAILURES section and the short summary report the same
tests, and each test is counted once."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ttmem.base.limits import FOLDED_TESTS
from ttmem.failures.classify import classify, classify_skip, limit_tests
from ttmem.failures.outcome import PASS, Outcome
from ttmem.operators.sweeps.foreign._names import operator_of, shapes_in
from ttmem.operators.sweeps.result import Result
from ttmem.readers.byte_source import Head

KIND = "pytest-log"
TITLE = "log of a pytest run"

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SECTION = re.compile(r"^=+ (.*?) =+\s*$")
_BLOCK = re.compile(r"^_{3,} (.+?) _{3,}\s*$")
_NODE = re.compile(r"[^\s:\[\]]+\.py::[\w.:]+")
_OUTCOMES = ("PASSED", "XPASS", "SKIPPED", "XFAIL", "FAILED", "ERROR")
"""From good to bad: a test that passed and then failed in its teardown is an error, and one test."""
_ANY = "|".join(_OUTCOMES)
_XDIST = re.compile(rf"^\[gw\d+\]\s*(?:\[\s*\d+%\])?\s*(?P<word>{_ANY})\s+(?P<node>.*)$")
_WORD = re.compile(rf"(?:^|(?<=\s))({_ANY})(?=\s*(?:\(|\[\s*\d+%\]|$))", re.MULTILINE)
_SHORT = re.compile(rf"^({_ANY}|RERUN)(?: \[(\d{{1,9}})\])? (.*)$")
_COUNTED = re.compile(r"(?<!\d)(\d{1,9}) (passed|failed|skipped|error|xfailed|xpassed)(?=s?\b)")
_PRINTED = re.compile(rb"=+ test session starts =+|=+ short test summary info =+|^\S+\.py::\w", re.MULTILINE)


@dataclass(slots=True)
class _Found:
    """The state of a test at this point of the log."""

    outcome: str = ""
    reason: str = ""

    def add(self, outcome: str, reason: str) -> None:
        if not self.outcome or _OUTCOMES.index(outcome) > _OUTCOMES.index(self.outcome):
            self.outcome, self.reason = outcome, reason or self.reason
        elif outcome == self.outcome and len(reason) > len(self.reason):
            self.reason = reason


@dataclass(slots=True)
class _Log:
    nodes: dict[str, _Found] = field(default_factory=dict)
    short_skips: list[tuple[int, str, str]] = field(default_factory=list)
    """(how many, file, reason): the summary folds skips and names no test."""
    blocks: dict[str, list[str]] = field(default_factory=dict)
    """Test -> the lines of its traceback."""
    counted: Counter[str] = field(default_factory=Counter)


def sniff(head: Head) -> bool:
    """Detect the log by its usual file name, or by pytest's own lines."""
    is_named = head.unpacked_name.endswith(("_results.txt", "_results.log"))
    return head.is_text and (is_named or bool(_PRINTED.search(head.content)))


def read(text: str, source: str) -> list[Result]:
    """Read each test of a log once."""
    return read_log(text, source)[0]


def read_log(text: str, source: str) -> tuple[list[Result], list[str]]:
    """The same, and where the log contradicts itself."""
    log = _Log()
    for title, lines in _sections(_ANSI.sub("", text.replace("\r\n", "\n"))):
        _read_section(log, title, lines)
    operator = operator_of(source)
    results = [_result(operator, source, node, found, log) for node, found in limit_tests(log.nodes.items())]
    named_skips = sum(found.outcome == "SKIPPED" for found in log.nodes.values())
    room = FOLDED_TESTS
    for count, file, reason in log.short_skips if not named_skips else ():
        # Nothing but the summary shows these: it folds equal ones, and does not say which tests they were.
        outcome, shapes = _skip_of(file, reason)
        names = (f"{file} {reason[:80]} #{number}" for number in range(min(count, room)))
        results += [Result(name, operator, outcome, shapes=shapes, source=source) for name in names]
        room -= min(count, room)
    notes = list(_contradictions(log, source, named_skips))
    if not room:
        notes.append(f"{source}: the summary folds more than {FOLDED_TESTS:,} skipped tests: the rest is left out")
    return results, notes


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    title, lines = "", list[str]()
    for line in text.split("\n"):
        match = _SECTION.match(line)
        if match:
            yield title, lines
            title, lines = match[1], []
        else:
            lines.append(line)
    yield title, lines


def _read_section(log: _Log, title: str, lines: list[str]) -> None:
    if " in " in title:  # a file may hold several runs
        log.counted.update({word: int(number) for number, word in _COUNTED.findall(title)})
    if title in ("FAILURES", "ERRORS"):
        _read_blocks(log, lines)
    elif title.startswith("short test summary"):
        _read_short(log, lines)
    elif title not in ("PASSES", "warnings summary"):
        _read_verbose(log, lines)


def _read_blocks(log: _Log, lines: list[str]) -> None:
    name = ""
    for line in lines:
        match = _BLOCK.match(line)
        if match:
            name = re.sub(r"^ERROR at (?:setup|teardown) of ", "", match[1])
            log.blocks.setdefault(name, [])
        elif name:
            log.blocks[name].append(line)


def _node_at(line: str) -> tuple[str, int] | None:
    """(node, end) of the node id that a line begins with; its brackets may hold blanks and more brackets."""
    match = _NODE.match(line)
    if not match:
        return None
    end = match.end()
    if line[end : end + 1] == "[":
        depth = 0
        for position in range(end, len(line)):
            depth += {"[": 1, "]": -1}.get(line[position], 0)
            if depth == 0:
                end = position + 1
                break
    return line[:end], end


def _read_verbose(log: _Log, lines: list[str]) -> None:
    open_node, rest = "", list[str]()
    for line in [*lines, ""]:
        spread = _XDIST.match(line)
        begun = _node_at(spread["node"] if spread else line)
        if spread and begun:
            log.nodes.setdefault(begun[0], _Found()).add(spread["word"], spread["node"][begun[1] :])
        elif begun:
            _settle(log, open_node, rest)
            open_node, rest = begun[0], [line[begun[1] :]]
            log.nodes.setdefault(open_node, _Found())
        else:
            rest.append(line)
    _settle(log, open_node, rest)


def _settle(log: _Log, node: str, rest: list[str]) -> None:
    """The outcome is the first such word that ends its line or opens a bracket; log lines before it are not."""
    if not node:
        return
    text = "\n".join(rest)
    if match := _WORD.search(text):
        is_explained = match[1] in ("SKIPPED", "XFAIL")
        reason = text[match.end() :].strip().removeprefix("(") if is_explained else text[: match.start()]
        log.nodes[node].add(match[1], reason)


def _read_short(log: _Log, lines: list[str]) -> None:
    entries: list[tuple[str, int, list[str]]] = []
    for line in lines:
        match = _SHORT.match(line)
        if match:
            entries.append((match[1], int(match[2] or 1), [match[3]]))
        elif entries:
            entries[-1][2].append(line)
    for word, count, words in entries:
        if word == "RERUN":
            continue
        text = "\n".join(words)
        begun = _node_at(text.split("\n", 1)[0])
        if begun:
            log.nodes.setdefault(begun[0], _Found()).add(word, text[begun[1] :].removeprefix(" - "))
        elif word == "SKIPPED":
            file, _, reason = text.partition(": ")
            log.short_skips.append((count, file, reason))


def _result(operator: str, source: str, node: str, found: _Found, log: _Log) -> Result:
    name = node.partition("::")[2]
    shapes = shapes_in(name)
    if found.outcome in ("PASSED", "XPASS"):
        outcome = Outcome(PASS)
    elif found.outcome == "SKIPPED":
        outcome, skipped = _skip_of(name, found.reason)
        shapes = skipped or shapes[:1]
    elif not found.outcome:
        outcome = Outcome("crash", failure_class="crash", message="the log ends inside this test")
    else:
        block = "\n".join(log.blocks.get(name.replace("::", ".")) or log.blocks.get(name) or ())
        outcome = classify("\n".join(filter(None, (block, found.reason))))
        shapes = shapes or shapes_in(_shape_words(block))
    return Result(node, operator, outcome, shapes=shapes, source=source)


def _skip_of(name: str, reason: str) -> tuple[Outcome, tuple[tuple[int, ...], ...]]:
    """Return the hidden status of a skip, and the shape in its reason or its test's name."""
    first_line = reason.split("\n", 1)[0].partition(" - ")[0]
    return classify_skip(reason), shapes_in(first_line)[:1] or shapes_in(name)[:1]


def _shape_words(block: str) -> str:
    """Return the shape of the tensor that a traceback names."""
    match = re.search(r"(?:input_shape\s*=|shape=Shape\()\s*([\[(][\d, ]+[\])])", block)
    return match[1] if match else ""


def _contradictions(log: _Log, source: str, named_skips: int) -> Iterator[str]:
    """Return a note where pytest's closing line differs from the tests that were read."""
    if not log.counted:
        return
    found = Counter(node.outcome.lower() for node in log.nodes.values())
    if not named_skips:
        found["skipped"] = sum(count for count, _, _ in log.short_skips)
    for word in ("passed", "failed", "skipped"):
        if log.counted[word] != found[word]:
            yield f"{source}: pytest counts {log.counted[word]} {word}, the log shows {found[word]}"
