# SPDX-License-Identifier: Apache-2.0
"""JSON of tt-metal's sweep framework: a list of tests, or a run that holds them.

Its FAIL_L1_OUT_OF_MEM is set by a piece of the message and also for DRAM, and clashes are filed under assertions; so
the message is read anew.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ttmem._errors import BadInputError
from ttmem.readers.byte_source import Head
from ttmem.readers.test_results._names import NoResultsError, operator_of, shapes_in
from ttmem.results import PASS, SKIPPED, Outcome, Result
from ttmem.results.classify import classify

KIND = "sweep-json"
TITLE = "JSON of tt-metal's sweep framework"
GIVES = "test results"
_NAMES = ("op_name", "full_test_name", "sweep_name", "test_name")
_PASSED = {"pass", "passed", "success", "xpass"}
_UNEXPLAINED: dict[str, dict[str, Any]] = {
    **{status: {"status": SKIPPED} for status in ("not_run", "skipped", "skip")},
    "fail_l1_out_of_mem": {"status": "oom", "failure_class": "oom/unknown"},
    "fail_crash_hang": {"status": "crash", "failure_class": "crash"},
}
"""What the framework's own status means where the message explains nothing."""


def sniff(head: Head) -> bool:
    """JSON whose objects have a status."""
    return head.content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{") and b'"status"' in head.content


def read(text: str, source: str) -> list[Result]:
    """The tests of a document."""
    try:
        document = json.loads(text.lstrip("\ufeff"))
    except ValueError as error:
        raise BadInputError(f"not JSON: {error}", where=source) from None
    if isinstance(document, Mapping) and isinstance(document.get("tests"), list):
        document = document["tests"]
    if isinstance(document, Mapping) and document and all(isinstance(value, Mapping) for value in document.values()):
        document = [{"input_hash": key, **value} for key, value in document.items()]
    if not isinstance(document, list) or not all(isinstance(item, Mapping) and "status" in item for item in document):
        raise NoResultsError(source)
    return results_of(document, source)


def results_of(items: Iterable[Mapping[str, Any]], source: str) -> list[Result]:
    """One result per vector; the framework's own column names."""
    found: dict[str, Result] = {}
    for number, item in enumerate(items):
        result = _result(item, number, source)
        before = found.get(result.id)
        if before is None or before.status == PASS:
            found[result.id] = result
    return list(found.values())


def _result(item: Mapping[str, Any], number: int, source: str) -> Result:
    status = str(item.get("status") or "").lower().removeprefix("teststatus.")
    text = "\n".join(str(item[key]) for key in ("exception", "message", "error_message") if item.get(key))
    operator = next((str(item[name]) for name in _NAMES if item.get(name)), source)
    inputs = item.get("inputs") or item.get("input_shape") or item.get("input_shapes") or item.get("shape") or ""
    hashed = str(item.get("input_hash") or item.get("vector_id") or number)
    full = str(item.get("full_test_name") or item.get("test_case_name") or "")
    return Result(
        f"{full}#{hashed}",
        operator_of(operator.removeprefix("ttnn.")),
        _outcome(status, text),
        board=str(item.get("card_type") or ""),
        shapes=_shapes(inputs),
        models=(str(item["model_name"]),) if item.get("model_name") else (),
        source=source,
    )


def _outcome(status: str, text: str) -> Outcome:
    if status in _PASSED:
        return Outcome(PASS)
    outcome = classify(text)
    return outcome if outcome.failure_class else outcome._replace(**_UNEXPLAINED.get(status, {}))


def _shapes(inputs: Any) -> tuple[tuple[int, ...], ...]:
    if isinstance(inputs, list) and all(isinstance(item, Mapping) for item in inputs):
        return tuple(tuple(item["shape"]) for item in inputs if isinstance(item.get("shape"), list))
    return shapes_in(inputs if isinstance(inputs, str) else json.dumps(inputs))
