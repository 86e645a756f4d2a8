# SPDX-License-Identifier: Apache-2.0
"""Results of tt-metal's sweep framework: JSON (a list of tests, or a run that holds them) and CSV with the same names.

Its FAIL_L1_OUT_OF_MEM is set by a piece of the message and also for DRAM, and clashes are filed under assertions; so
the message is read anew.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ttmem._errors import BadInputError
from ttmem.sweep.foreign.meaning import Meaning, meaning_of_failure, operator_of, shapes_in
from ttmem.sweep.tests import SKIPPED, Test

_NAMES = ("op_name", "full_test_name", "sweep_name", "test_name")
_PASSED = {"pass", "passed", "success", "xpass"}
_NOT_RUN = {"not_run", "skipped", "skip"}


def read_sweep_json(text: str, source: str) -> list[Test] | None:
    """The tests, or None when the document is none of the framework's."""
    try:
        told = json.loads(text)
    except ValueError as error:
        raise BadInputError(f"not JSON: {error}", where=source) from None
    if isinstance(told, Mapping) and isinstance(told.get("tests"), list):
        told = told["tests"]
    if isinstance(told, Mapping) and told and all(isinstance(value, Mapping) for value in told.values()):
        told = [{"input_hash": key, **value} for key, value in told.items()]
    if not isinstance(told, list) or not all(isinstance(item, Mapping) and "status" in item for item in told):
        return None
    return _tests(told, source)


def read_sweep_csv(text: str, source: str) -> list[Test] | None:
    """The same from a table; None when it has no status column."""
    rows = list(csv.DictReader(io.StringIO(text)))
    if not rows or "status" not in rows[0]:
        return None
    return _tests(rows, source)


def _tests(told: Iterable[Mapping[str, Any]], source: str) -> list[Test]:
    found: dict[str, Test] = {}
    for number, item in enumerate(told):
        test = _test(item, number, source)
        before = found.get(test.name)
        if before is None or before.status == "pass":
            found[test.name] = test
    return list(found.values())


def _test(item: Mapping[str, Any], number: int, source: str) -> Test:
    status = str(item.get("status") or "").lower().removeprefix("teststatus.")
    text = "\n".join(str(item[key]) for key in ("exception", "message", "error_message") if item.get(key))
    meaning = _meaning(status, text)
    operator = next((str(item[name]) for name in _NAMES if item.get(name)), source)
    inputs = item.get("inputs") or item.get("input_shape") or item.get("input_shapes") or item.get("shape") or ""
    hashed = str(item.get("input_hash") or item.get("vector_id") or number)
    full = str(item.get("full_test_name") or item.get("test_case_name") or "")
    return Test(
        operator_of(operator.removeprefix("ttnn.")),
        f"{full}#{hashed}",
        meaning.status,
        shapes=_shapes(inputs),
        board=str(item.get("card_type") or ""),
        failed_memory=meaning.memory,
        needed_bytes=meaning.needed_bytes,
        bytes_per_bank=meaning.bytes_per_bank,
        banks=meaning.banks,
        message=meaning.message,
        failure_class=meaning.failure_class,
        models=(str(item["model_name"]),) if item.get("model_name") else (),
        source=source,
    )


def _meaning(status: str, text: str) -> Meaning:
    if status in _PASSED:
        return Meaning("pass")
    meaning = meaning_of_failure(text)
    if status in _NOT_RUN and not (meaning.failure_class or meaning.status == "oom"):
        return Meaning(SKIPPED, meaning.message)
    if status == "fail_l1_out_of_mem" and meaning.status != "oom" and not meaning.failure_class:
        return Meaning("oom", meaning.message, "oom/unknown", meaning.memory)
    if status == "fail_crash_hang" and not meaning.failure_class:
        return Meaning("crash", meaning.message, "crash")
    return meaning


def _shapes(inputs: Any) -> tuple[tuple[int, ...], ...]:
    if isinstance(inputs, list) and all(isinstance(item, Mapping) for item in inputs):
        return tuple(tuple(item["shape"]) for item in inputs if isinstance(item.get("shape"), list))
    return shapes_in(inputs if isinstance(inputs, str) else json.dumps(inputs))
