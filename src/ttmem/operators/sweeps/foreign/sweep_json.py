# SPDX-License-Identifier: Apache-2.0
"""JSON of tt-metal's sweep framework: a list of tests, or a run that holds them.

Its FAIL_L1_OUT_OF_MEM is set by a piece of the message and also for DRAM, and clashes are filed under assertions; so
the message is read anew.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.base.limits import parse_literal
from ttmem.failures.classify import classify, limit_tests
from ttmem.failures.outcome import PASS, SKIPPED, Outcome
from ttmem.hardware import BOARDS, DATA_TYPES
from ttmem.operators.sweeps.foreign._names import NoResultsError, operator_of, shapes_in
from ttmem.operators.sweeps.result import Result
from ttmem.readers.byte_source import Head

KIND = "sweep-json"
TITLE = "JSON of tt-metal's sweep framework"
_NO_PARAMETERS = frozenset(
    ("inputs", "outputs", "op_params", "op_params_set", "config", "metrics", "message", "exception", "error_message")
)
"""Keys of a test that hold no parameter of the vector by themselves."""
_OTHER_SHAPES = re.compile(r"shard|grid|output|mesh|tile_shape|kernel")
"""Words of parameters whose shape is not that of an input."""
_MOST_DEPTH = 8
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
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"not JSON: {error}", where=source) from None
    card_type = ""
    if isinstance(document, Mapping) and isinstance(document.get("tests"), list):
        card_type = str(document.get("card_type") or "")
        document = document["tests"]
    if isinstance(document, Mapping) and document and all(isinstance(value, Mapping) for value in document.values()):
        document = [{"input_hash": key, **value} for key, value in document.items()]
    if not isinstance(document, list) or not all(isinstance(item, Mapping) and "status" in item for item in document):
        raise NoResultsError(source)
    return results_of(document, source, card_type)


def results_of(items: Iterable[Mapping[str, Any]], source: str, card_type: str = "") -> list[Result]:
    """Read a result per vector; the framework's own column names."""
    found: dict[str, Result] = {}
    for number, item in enumerate(limit_tests(items)):
        result = _result(item, number, source, card_type)
        before = found.get(result.id)
        if before is None or before.status == PASS:
            found[result.id] = result
    return list(found.values())


def _result(item: Mapping[str, Any], number: int, source: str, card_type: str) -> Result:
    status = str(item.get("status") or "").lower().removeprefix("teststatus.")
    text = "\n".join(str(item[key]) for key in ("exception", "message", "error_message") if item.get(key))
    operator = next((str(item[name]) for name in _NAMES if item.get(name)), source)
    hashed = str(item.get("input_hash") or item.get("vector_id") or number)
    full = str(item.get("full_test_name") or item.get("test_case_name") or "")
    parameters = list(_parameters(item))
    return Result(
        f"{full}#{hashed}",
        operator_of(operator.removeprefix("ttnn.")),
        _outcome(status, text),
        board=_board(str(item.get("card_type") or card_type)),
        shapes=_shapes(item, parameters),
        dtype=_dtype(parameters),
        models=(str(item["model_name"]),) if item.get("model_name") else (),
        source=source,
    )


def _board(card_type: str) -> str:
    """``wormhole_b0 (N150)`` -> ``n150``; a card that is no board of ours keeps its words."""
    named = (BOARDS.get(word) for word in re.findall(r"[A-Za-z0-9-]+", card_type))
    known = next((board.name for board in named if board is not None), "")
    return known or ("" if card_type.lower() in ("n/a", "unknown") else card_type)


def _outcome(status: str, text: str) -> Outcome:
    if status in _PASSED:
        return Outcome(PASS)
    outcome = classify(text)
    return outcome if outcome.failure_class else outcome._replace(**_UNEXPLAINED.get(status, {}))


def _shapes(item: Mapping[str, Any], parameters: Sequence[tuple[str, Any]]) -> tuple[tuple[int, ...], ...]:
    """Return shapes of the inputs, else of parameters named as shapes: lists, or texts of lists or dicts."""
    if inputs := item.get("inputs"):
        described = inputs if isinstance(inputs, list) else []
        told = [one["shape"] for one in described if isinstance(one, Mapping) and one.get("shape")]
        if found := _sizes(told or inputs):
            return found
    named = [value for name, value in parameters if "shape" in name and not _OTHER_SHAPES.search(name)]
    return tuple(shape for value in named for shape in _sizes(value))


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    return shapes_in(value if isinstance(value, str) else json.dumps(value))


def _dtype(parameters: Sequence[tuple[str, Any]]) -> str:
    """``DataType.BFLOAT16`` of the first parameter that names an input's; empty where none is known."""
    for name, value in parameters:
        if "dtype" in name and "output" not in name and isinstance(value, str):
            known = DATA_TYPES.get(value.rpartition(".")[2].lower())
            if known is not None:
                return known.name
    return ""


def _parameters(item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return the vector in any version of the framework: columns, ``op_params``, or name and value in a list.

    Names are lower case and dotted where parameters hold others.
    """
    yield from _read_named_values("", {name: value for name, value in item.items() if name not in _NO_PARAMETERS})
    for place in ("op_params", "config"):
        yield from _read_named_values("", _parse_value(item.get(place)))
    for place in ("op_params", "op_params_set"):
        listed = _parse_value(item.get(place))
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, Mapping) and isinstance(one.get("param_name"), str):
                values = (one.get(f"param_value_{kind}") for kind in ("json", "text", "numeric"))
                yield from _read_named_values(
                    one["param_name"].lower(), next((value for value in values if value is not None), None)
                )


def _read_named_values(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    inner = _parse_value(value) if isinstance(value, str) and value.lstrip()[:1] == "{" else value
    if isinstance(inner, Mapping) and depth < _MOST_DEPTH:
        for key, part in inner.items():
            yield from _read_named_values(f"{name}.{key}".strip(".").lower(), part, depth + 1)
    elif name:
        yield name, value


def _parse_value(value: Any) -> Any:
    """A text that holds JSON, or what Python prints of a dict; anything else as it is."""
    if not isinstance(value, str):
        return value
    if value.lstrip()[:1] not in ("{", "["):
        return None
    for parse in (json.loads, parse_literal):
        with contextlib.suppress(ValueError, RecursionError):
            return parse(value)
    return None
