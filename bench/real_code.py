# SPDX-License-Identifier: Apache-2.0
"""tt-metal's own tests and models, unedited, under ``ttmem test`` on a mock board: how they end, and why.

    python bench/real_code.py CHECKOUT --python PATH --work FOLDER [--seed 1] [--files 62] [--tests 12] [--board n150]
    python bench/real_code.py CHECKOUT --python PATH --work FOLDER --under tests/ttnn/unit_tests/operations \
        --files 400 --parts unit --minutes 60                                  # in random order, for an hour
    python bench/real_code.py CHECKOUT --python PATH --work FOLDER --docs docs/real-code.md    # the table of the models

CHECKOUT is a checkout of tt-metal (fetched for the measurement, never committed or changed), PATH an interpreter that
has ttnn, torch and what its tests import. Tests run with the checkout's own ``pytest.ini``. A seeded sample of test
files over all families of operations, and of tests in each, is run, then the models of ``real_models.toml`` (weights
are random: ``offline_models.py``). What fails is run once more with plain ttnn on the same mock: a failure that it has
too is the test's own. Then the whole sample runs with plain ttnn, comparisons of values off, for the ratio of CPU time.

Every file's and model's result is kept in FOLDER as it comes, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ttmem.engines.interpreters import find_interpreter
from ttmem.engines.workspace import open_workspace

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
SOURCE = str(HERE.parent / "src")

SAMPLER = """
import os, random, sys
import pytest


def pytest_collection_modifyitems(config, items):
    chosen = os.environ.get("SAMPLE_IDS")
    if chosen:
        wanted = set(chosen.split("\\n"))
        items[:] = [item for item in items if item.nodeid in wanted]
        return
    most, seed = int(os.environ["SAMPLE_TESTS"]), os.environ["SAMPLE_SEED"]
    if most and len(items) > most:
        keep = set(random.Random(seed + items[0].nodeid.partition("::")[0]).sample(range(len(items)), most))
        items[:] = [item for place, item in enumerate(items) if place in keep]


def pytest_collection_finish(session):
    if os.environ.get("SAMPLE_LIST"):
        with open(os.environ["SAMPLE_LIST"], "w") as listed:
            listed.write("\\n".join(str(item.nodeid) for item in session.items))


if os.environ.get("SAMPLE_VALUES") == "off":
    sys.path.append(os.environ["SAMPLE_TTMEM"])
    import ttnn
    from ttmem.engines.worker.comparisons import Comparisons

    comparisons = Comparisons(ttnn)
    comparisons.install()

    def pytest_runtest_setup(item):
        comparisons.begin_test(has_read=True)  # operations are not recorded here, so none is seen to read

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(item, call):
        report = (yield).get_result()
        if report.when == "call" and report.failed and comparisons.excuse(call.excinfo.value):
            report.outcome, report.longrepr = "passed", None
"""
DRIVERS = {
    "language_model": """
import os, pytest, torch, ttnn
from models.tt_transformers.tt.common import Mode, PagedAttentionConfig
from models.tt_transformers.tt.model import Transformer
from models.tt_transformers.tt.model_config import DecodersPrecision, ModelArgs

MESH = tuple(map(int, os.environ["DRIVEN_MESH"].split("x")))
TOKENS = 2


@pytest.mark.parametrize("mesh_device", [MESH], indirect=True)
@pytest.mark.parametrize("device_params", [{"fabric_config": True}], indirect=True)
def test_full_depth(mesh_device):
    fast = lambda told: DecodersPrecision.performance(told.n_layers, told.model_name)
    torch.set_default_dtype(torch.bfloat16)
    told = ModelArgs(mesh_device, dummy_weights=True, optimizations=fast, max_seq_len=256, max_batch_size=1)
    told.n_layers = int(os.environ.get("DRIVEN_LAYERS", told.n_layers))
    paging = PagedAttentionConfig(block_size=32, max_num_blocks=1024)
    whole = ttnn.ShardTensor2dMesh(mesh_device, dims=(None, None), mesh_shape=told.cluster_shape)
    blocks = torch.arange(paging.max_num_blocks).reshape(1, -1)
    table = ttnn.from_torch(
        blocks, device=mesh_device, dtype=ttnn.int32, layout=ttnn.ROW_MAJOR_LAYOUT, mesh_mapper=whole
    )
    weights = told.load_state_dict()
    model = Transformer(
        args=told, mesh_device=mesh_device, dtype=ttnn.bfloat8_b, state_dict=weights, weight_cache_path=None,
        paged_attention_config=paging,
    )
    del weights
    for token in range(TOKENS):
        place = torch.tensor([token])
        places = ttnn.from_torch(place, device=mesh_device, dtype=ttnn.int32, mesh_mapper=whole)
        embedded = torch.zeros(1, 1, told.dim)
        stream = told.prepare_residual_tensor_decode(embedded, told.get_residual_mem_config(Mode.DECODE, None))
        turned = model.rope_setup.get_rot_mats(place, None)
        logits = model(stream, places, rot_mats_global=turned, mode=Mode.DECODE, page_table=table)
        ttnn.deallocate(logits)
"""
}
"""Tests of ours, where the checkout has none for what is wanted: a language model at full depth with random weights."""
PYTEST = ("-p", "no:cacheprovider", "-p", "sample_tests")
"""Beside what the checkout's own ``pytest.ini`` says."""
VALUES = re.compile(r"(AssertionError|assert |Failed: )|.*(PCC|allclose|ULP)")
"""How the message of a failure by a value begins."""
FAMILIES = "tests/ttnn/unit_tests"
COLUMNS = (
    *("model", "kind", "board", "tests", "operations", "DRAM MB/bank", "L1 MB/bank", "L1 with programs MB/core"),
    "operations unmeasured",
)
FIGURES = ("dram_peak_bytes_per_bank", "l1_peak_bytes_per_bank", "l1_with_programs_bytes_per_core")
GOOD = ("passed", "skipped", "xfailed")
BEGIN, END = "<!-- begin: bench/real_code.py -->", "<!-- end: bench/real_code.py -->"


@dataclass(frozen=True)
class Item:
    """A file of the sample, or a model."""

    name: str
    test: str
    """As pytest takes it."""
    board: str
    kind: str = "unit"
    only: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """The name of its result's file."""
        return re.sub(r"[^A-Za-z0-9]+", "-", f"{self.kind} {self.name}").strip("-").lower()


def main() -> int:
    """Run what has no result yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--files", type=int, default=62)
    parser.add_argument("--tests", type=int, default=12, help="tests per file; 0: all")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--under", default=FAMILIES, help="draw the test files from this folder of the checkout")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--cap", type=float, default=240.0, help="seconds per file")
    parser.add_argument("--model-cap", type=float, default=1200.0, help="seconds per model")
    parser.add_argument("--parts", default="unit,models,plain", help="of these")
    parser.add_argument("--match", default="", help="only items whose name has this in it")
    parser.add_argument("--docs", type=Path, help="write the table of the models there")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no more files after this time")
    asked = parser.parse_args()
    asked.checkout = linked_checkout(asked.checkout.resolve(), asked.work.resolve() / "tree")
    until = time.monotonic() + 60 * (asked.minutes or float("inf"))
    units, models = _files(asked), _models(asked)
    folders = {"unit": asked.work / f"seed-{asked.seed}", "models": asked.work / "models"}
    chosen = [("unit", item) for item in units] + [("models", item) for item in models]
    chosen = [(part, item) for part, item in chosen if asked.match.lower() in item.name.lower()]
    with surroundings(asked) as environment:
        for part, item in chosen:
            if part in asked.parts.split(",") and time.monotonic() < until:
                _once(folders[part] / f"{item.slug}.json", lambda item=item: run(item, asked, environment))
        for part, item in chosen:
            done = folders[part] / f"{item.slug}.json"
            if "plain" in asked.parts.split(",") and done.exists() and time.monotonic() < until:
                plain = folders[part] / f"{item.slug}.plain.json"
                _once(
                    plain,
                    lambda item=item, done=done: plain_again(item, json.loads(done.read_text()), asked, environment),
                )
    rows = {part: _rows(folders[part], [item for kind, item in chosen if kind == part]) for part in folders}
    print(table([*rows["unit"]], "unit tests"))
    print(table([*rows["models"]], "models"))
    print(models_table(rows["models"]))
    if asked.docs:
        text = asked.docs.read_text()
        head, tail = text.partition(BEGIN)[0], text.partition(END)[2]
        asked.docs.write_text(f"{head}{BEGIN}\n{models_table(rows['models'])}\n{END}{tail}")
    return 1 if any(row["ours"] for part in rows.values() for row in part) else 0


def linked_checkout(checkout: Path, place: Path) -> Path:
    """A folder of links to what the checkout holds: its pytest.ini writes reports below the working folder."""
    place.mkdir(parents=True, exist_ok=True)
    for one in checkout.iterdir():
        if not (place / one.name).is_symlink():
            (place / one.name).symlink_to(one)
    return place


def _files(asked: argparse.Namespace) -> list[Item]:
    """In random order, of every family in turn, so that a small one is not missed."""
    families: dict[str, list[str]] = {}
    for file in sorted((asked.checkout / asked.under).rglob("test_*.py")):
        family = str(file.relative_to(asked.checkout / asked.under).parent).split("/")[:2]
        families.setdefault("/".join(family), []).append(str(file.relative_to(asked.checkout)))
    order = random.Random(asked.seed)
    for files in families.values():
        order.shuffle(files)
    found: list[str] = []
    while len(found) < asked.files and any(families.values()):
        found += [files.pop() for files in families.values() if files][: asked.files - len(found)]
    return [Item(file.removeprefix(f"{asked.under}/"), file, _board_of(file, asked.board)) for file in found]


def _board_of(file: str, otherwise: str) -> str:
    """Operations between chips need some: such tests skip themselves on one, as tests for Blackhole do elsewhere."""
    is_blackhole = re.search(r"blackhole|_bh(_|\.)", file, re.IGNORECASE)
    if "/ccl/" not in file and "/point_to_point/" not in file:
        return "p150" if is_blackhole else otherwise
    if is_blackhole:
        return "p150x4"
    return "galaxy" if "galaxy" in file or "/tg" in file.lower() else "t3k"


def _models(asked: argparse.Namespace) -> list[Item]:
    listed = tomllib.loads((HERE / "real_models.toml").read_text())["model"]
    return [
        Item(
            one["name"],
            one.get("test", f"{{drivers}}/test_{one.get('driver')}.py"),
            one.get("board", "n150"),
            one["kind"],
            one.get("only", ""),
            one.get("environment", {}),
            tuple(f"-p{name}" for name in ("offline_models", *one.get("plugins", ()))),
        )
        for one in listed
    ]


@contextmanager
def surroundings(asked: argparse.Namespace) -> Iterator[dict[str, str]]:
    """The environment of all runs: nothing is fetched while they run."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sample_tests.py").write_text(SAMPLER)
        Path(folder, "offline_models.py").write_text((HERE / "offline_models.py").read_text())
        dot = Path(folder, "dot")  # stands for Graphviz: some models draw themselves, which is not what is measured
        dot.write_text("#!/bin/sh\n")
        dot.chmod(0o755)
        for name, text in DRIVERS.items():
            Path(folder, f"test_{name}.py").write_text(text)
        yield {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": os.pathsep.join((str(asked.checkout), folder)),
            "PATH": os.pathsep.join((os.environ["PATH"], folder)),
            "SAMPLE_FOLDER": folder,
            "SAMPLE_TTMEM": SOURCE,
            "SAMPLE_TESTS": str(asked.tests),
            "SAMPLE_SEED": asked.seed,
            "HF_HUB_OFFLINE": "1",
            # As an installed package has it, and the checkout stays as it is.
            "PYTHONPYCACHEPREFIX": str(asked.work.resolve() / "bytecode"),
            # Processors that announce AMX without the right to use it: torch's bfloat16 matmul dies of it.
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "OMP_NUM_THREADS": "1",
        }


def _once(file: Path, work: Any) -> None:
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    row = work()
    print(json.dumps({name: value for name, value in row.items() if name not in ("tests", "stderr")}), flush=True)
    rest = file.with_suffix(".part")
    rest.write_text(json.dumps(row, indent=1))
    rest.rename(file)


def _rows(folder: Path, items: list[Item]) -> list[dict[str, Any]]:
    rows = []
    for item in items:
        done, plain = folder / f"{item.slug}.json", folder / f"{item.slug}.plain.json"
        if done.exists():
            more = json.loads(plain.read_text()) if plain.exists() else {}
            rows.append({**json.loads(done.read_text()), **more})
    return rows


def _pytest_words(item: Item, environment: dict[str, str]) -> list[str]:
    only = ["-k", item.only] if item.only else []
    return [item.test.format(drivers=environment["SAMPLE_FOLDER"]), *PYTEST, *item.more, *only]


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(item: Item, asked: argparse.Namespace, environment: dict[str, str]) -> dict[str, Any]:
    """One file under ``ttmem test``; what fails, once more without it."""
    began = _cpu_seconds()
    # This process's own code must not shadow what the tests import, so only the start of it knows where it is.
    code = "import sys; from ttmem.commands.program import main; sys.exit(main())"
    start = f"import sys; sys.path.insert(0, {SOURCE!r}); {code}"
    test, *words = _pytest_words(item, environment)
    cap = asked.cap if item.kind == "unit" else asked.model_cap
    options = ["--board", item.board, "--python", asked.python, "--json", "--no-store", "--timeout", str(cap * 5)]
    listed = Path(environment["SAMPLE_FOLDER"], f"{item.slug}.ids")
    done = subprocess.run(
        [sys.executable, "-c", start, "test", test, *options, "--test-timeout", str(cap), *words],
        cwd=asked.checkout,
        env={**environment, **item.environment, "SAMPLE_LIST": str(listed)},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = _cpu_seconds() - began
    try:
        suite = json.loads(done.stdout)
    except ValueError:
        suite = {"tests": [], "status": done.returncode}
    failed = [test for test in suite["tests"] if test["outcome"] not in GOOD]
    plain = _plain_each(item, [test["id"] for test in failed], asked, environment)
    ours = [test for test in failed if plain.get(test["id"]) == "passed"]
    lost = [] if suite["tests"] else _lost(item, asked, environment)
    ids = set(listed.read_text().splitlines() if listed.exists() else ())
    lost += [f"{one}: no outcome" for one in sorted(ids - {test["id"] for test in suite["tests"]}) if not lost]
    internal_error = "INTERNALERROR" in done.stderr
    return {
        "name": item.name,
        "kind": item.kind,
        "board": item.board,
        "counts": dict(Counter(test["outcome"] for test in suite["tests"])),
        "cpu_seconds": round(seconds, 1),
        "status": suite["status"],
        "internal_error": internal_error,
        "not_judged": sum(test.get("not_judged") is not None for test in suite["tests"]),
        "unmeasured": sum(test["unmeasured_programs"] or 0 for test in suite["tests"]),
        "skipped_comparisons": sum(test["skipped_comparisons"] or 0 for test in suite["tests"]),
        "theirs": [f"{_short(test)}: {_why(test)}" for test in failed if test not in ours],
        "ours": [*lost, *(f"{_short(test)}: {_why(test)}" for test in ours)],
        "stderr": "" if suite["tests"] and not internal_error else done.stderr[-3000:],
        "tests": suite["tests"],
    }


def _lost(item: Item, asked: argparse.Namespace, environment: dict[str, str]) -> list[str]:
    """Nothing came back of a file: ours, unless plain ttnn cannot even collect it, or brings nothing back either."""
    with _plain_run(item, [], asked, environment) as done:
        return ["no result, but plain ttnn has some"] if done.returncode in (0, 1) else []


def _short(test: dict[str, Any]) -> str:
    return str(test["id"]).partition("::")[2]


def _why(test: dict[str, Any]) -> str:
    return str((test["failure"] or {}).get("message", ""))[:300]


@contextmanager
def _plain_run(
    item: Item, ids: list[str], asked: argparse.Namespace, environment: dict[str, str], *words: str, **more: str
) -> Iterator[subprocess.CompletedProcess[str]]:
    """These tests with plain ttnn on the same mock; a hang ends with status 124."""
    cap = asked.cap if item.kind == "unit" else asked.model_cap
    with open_workspace(find_interpreter(asked.python), board=item.board) as place:
        command = [asked.python, "-m", "pytest", *_pytest_words(item, environment), *words]
        surrounding = place.build_environment({**environment, **item.environment, "SAMPLE_IDS": "\n".join(ids), **more})
        try:
            yield subprocess.run(
                command, cwd=asked.checkout, env=surrounding, capture_output=True, text=True, timeout=cap, check=False
            )
        except subprocess.TimeoutExpired:
            yield subprocess.CompletedProcess(command, 124, "", "")


def _plain_each(item: Item, ids: list[str], asked: argparse.Namespace, environment: dict[str, str]) -> dict[str, str]:
    """How these tests end without ttmem; a failure by a value counts as passed, because a mock has no values."""
    outcomes = _plain_outcomes(item, ids, asked, environment) if ids else {}
    for one in [one for one in ids if one not in outcomes]:  # each alone: some kill the process
        outcomes[one] = _plain_outcomes(item, [one], asked, environment).get(one, "failed")
    return outcomes


def _plain_outcomes(
    item: Item, ids: list[str], asked: argparse.Namespace, environment: dict[str, str]
) -> dict[str, str]:
    """The same of all at once; nothing when one of them kills the process."""
    report = Path(environment["SAMPLE_FOLDER"], f"{item.slug}.xml")
    report.unlink(missing_ok=True)
    with _plain_run(item, ids, asked, environment, "--junitxml", str(report)) as done:
        if done.returncode not in (0, 1) or not report.exists():
            return {}
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problems = [str(part.get("message")) for part in case if part.tag in ("failure", "error")]
        fails = any(not VALUES.match(message) for message in problems)
        outcomes[f"{case.get('classname')}.{case.get('name')}"] = "failed" if fails else "passed"
    return {one: found for one in ids if (found := outcomes.get(_junit_name(one)))}


def _junit_name(test: str) -> str:
    file, _, name = test.partition("::")
    first, bracket, parameters = name.partition("[")
    return file.removesuffix(".py").replace("/", ".") + "." + first.replace("::", ".") + bracket + parameters


def plain_again(
    item: Item, row: dict[str, Any], asked: argparse.Namespace, environment: dict[str, str]
) -> dict[str, Any]:
    """The tests that passed, all at once without ttmem: how many pass, and their CPU time."""
    ids = [test["id"] for test in row["tests"] if test["outcome"] == "passed"]
    if not ids or len(ids) < sum(count for outcome, count in row["counts"].items() if outcome != "skipped"):
        return {"plain": None}  # others took time too, which cannot be told apart
    began = _cpu_seconds()
    with _plain_run(item, ids, asked, environment, SAMPLE_VALUES="off") as done:
        passed = re.search(r"(\d+) passed", done.stdout)
        same = done.returncode == 0 and passed is not None and int(passed[1]) == len(ids)
        return {"plain": round(_cpu_seconds() - began, 1) if same else None}


def table(rows: list[dict[str, Any]], title: str) -> str:
    """Counts by outcome, every failure that plain ttnn does not have, and the ratio of times."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row["counts"])
    total = sum(counts.values())
    judged = sum(count for outcome, count in counts.items() if outcome != "skipped")
    ours = [f"- {row['name']}: {text}" for row in rows for text in row["ours"]]
    good = judged - len(ours)
    timed = [row for row in rows if row.get("plain")]
    recorded, plain = sum(row["cpu_seconds"] for row in timed), sum(row["plain"] for row in timed)
    ratio = (
        f"{recorded / plain:.2f} ({recorded:.0f} s of CPU, plain {plain:.0f} s, {len(timed)} files)" if plain else "-"
    )
    lines = [
        f"{title}: {len(rows)} files, {total} tests: {dict(counts)}",
        f"pass, or fail for a reason of their own: {good} of {judged} ({_share(good, judged)})",
        f"pass, skip, or fail with plain ttnn too: {total - len(ours)} of {total} ({_share(total - len(ours), total)})",
        f"files with INTERNALERROR: {sum(bool(row.get('internal_error')) for row in rows)}",
        f"tests that ended by an assertion on values, not judged: {sum(row.get('not_judged', 0) for row in rows)}",
        f"operations with unmeasured programs: {sum(row['unmeasured'] for row in rows)}",
        f"comparisons of values skipped: {sum(row['skipped_comparisons'] for row in rows)}",
        f"files without a result (set-up, imports): {sum(not row['counts'] for row in rows)}",
        f"recorded / plain: {ratio}",
        *ours,
    ]
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


def models_table(rows: list[dict[str, Any]]) -> str:
    """The models that ran, with the peaks of the test of each that needs most."""
    lines = [
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
    ]
    for row in rows:
        ran = [test for test in row["tests"] if test.get("operations")]
        if not ran:
            continue
        cells = [f"{max(test.get(name) or 0 for test in ran) / (1 << 20):.3f}" for name in FIGURES]
        counts = ", ".join(f"{count} {outcome}" for outcome, count in row["counts"].items())
        operations = f"{max(test['operations'] for test in ran):,}"
        figures = (row["name"], row["kind"], row["board"], counts, operations, *cells, str(row["unmeasured"]))
        lines.append(f"| {' | '.join(figures)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
