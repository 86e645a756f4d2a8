# SPDX-License-Identifier: Apache-2.0
"""The command lines that README, the pages for newcomers and every ``--help`` show, run as they stand.

They run in a folder that holds what they name. What is not run is in ``NOT_RUN``, with the reason.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import zstandard

from support.command_line import BLACKHOLE_OOM, FIVE_RUNS, ROOT, environment
from support.command_line import EXAMPLES as EXAMPLE_LOGS
from support.fork_server import forking_program
from ttmem.base.home import home_folder
from ttmem.commands.program import cli
from ttmem.commands.tt_memory_profiler import command as profiler

DATA = ROOT / "tests" / "data"
PAGES = ("README.md", "CONTRIBUTING.md", "docs/tutorial.md", "docs/ci.md", "docs/agents.md")

NOT_RUN = {
    "make ": "is what started this test",
    "claude mcp": "another program's command line",
    "tcp://": "there is no such scheduler",
    "device install": "downloads the library",
    "hf:SwinConfig": "minutes: two models at 8 megapixels",
    "hf:ViTConfig --size": "as without a size",
    "pip install": "needs the network",
    "git clone": "needs the network",
}
NEEDS_TORCH = ("ops extract hf:", "ops extract model.py", "fit hf:", "fit model.py")
NEEDS_TTNN = (
    "ttmem run ",
    "ttmem fit block.py",
    "ttmem tune ",
    "ttmem whatif ",
    "ttmem test ",
    "--engine mock",
    "--advice mock",
    "device doctor",
    "ops tests",
)
STORED = ("nightly", "bert", "bert-2", "model", "main", "first-try", "second-try", "fixed")
GOES_ON = ("ttmem live", "ttmem mcp", "ttmem serve")
"""Ends with Ctrl-C, or with its standard input."""


def _examples() -> dict[str, None]:
    """Each once, in the order in which they are found."""
    found: dict[str, None] = {}

    def walk(command: click.Command) -> None:
        found.update(dict.fromkeys((command.epilog or "").strip().splitlines()))
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                walk(child)

    walk(cli)
    walk(profiler)
    for page in PAGES:
        text = (ROOT / page).read_text()
        for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL):
            lines = (re.sub(r"\s+# .*", "", line).strip() for line in block.splitlines())
            found.update(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    return found


EXAMPLES = [line for line in _examples() if not any(words in line for words in NOT_RUN)]


def _marks(line: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.oracle] if any(words in line for words in (*NEEDS_TORCH, *NEEDS_TTNN)) else []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples name: logs, captures, code, cases, results, stored reports."""
    place = tmp_path_factory.mktemp("examples")
    five_runs, failed = gzip.decompress(FIVE_RUNS.read_bytes()), gzip.decompress(BLACKHOLE_OOM.read_bytes())
    for name in ("run.log", "before.log", "after.log", "today.log", "debug.log", "model_profile.log"):
        (place / name).write_bytes(five_runs)
    (place / "run.log.zst").write_bytes(zstandard.compress(five_runs))
    for name in ("failed.log", "pytest.log"):
        (place / name).write_bytes(failed)
    shutil.copytree(ROOT / "examples", place / "examples")
    shutil.copytree(EXAMPLE_LOGS, place / "docs" / "examples")
    for log in (
        "logs/model_20260821_101500/model_profile.log",
        "generated/watcher/watcher.log",
        "watcher.log",
        "tests/test_model.py",
    ):
        (place / log).parent.mkdir(parents=True, exist_ok=True)
        (place / log).write_bytes(five_runs if log.endswith(".log") else b"def test_model():\n    pass\n")
    script = (ROOT / "examples" / "transformer_block.py").read_text()
    (place / "my_script.py").write_text(f"import sys\nsys.argv[1:] = []\n{script}")
    (place / "block.py").write_text(_block())
    shutil.copy(DATA / "logs" / "real" / "ttnn-module-dump-weights.mlir", place / "ttnn_decode.mlir")
    (place / "config.json").write_text(json.dumps(_LANGUAGE_MODEL))
    (place / "models.txt").write_text("config.json --recipe tt-transformers:accuracy --context 4096 --engine twin\n")
    test = "import ttnn\n\n\ndef test_attention(device):\n    ttnn.relu(ttnn.ones((32, 32), device=device))\n"
    for name in ("test_block.py", "tests/ttnn/unit_tests/test_block.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(test)
    capture = DATA / "captures" / "n150-normal.json.gz"
    (place / "capture.json").write_bytes(gzip.decompress(capture.read_bytes()))
    for name, source in (
        ("my_op", "fixed_add"),
        ("src", "dataflow"),
        ("customer", "adaptive_add"),
        ("fixed", "fixed_add"),
    ):
        shutil.copytree(DATA / "cb" / source, place / name)
    for name in ("program_factory.cpp", "add_customer.cpp", "add_fixed.cpp"):
        shutil.copy(DATA / "cb" / "fixed_add" / "host.cpp", place / name)
    header = "OP CODE,OP TYPE,DEVICE FW DURATION [ns],DEVICE KERNEL DURATION [ns],CORE COUNT\n"
    (place / "ops_perf_results.csv").write_text(f"{header}Matmul,tt_dnn_device,1200,1000,64\n")
    (place / "my.toml").write_text('name = "mine"\n[tiles]\ncb0 = 2\ncb1 = 4\ncb2 = 2\ncb16 = 2\n')
    steps = '{"alloc": "a", "shape": [1, 1, 1024, 1024], "memory": "DRAM"}\n{"free": "a"}\n'
    (place / "steps.jsonl").write_text(steps)
    model = (DATA / "operators" / "small_model.py").read_text().replace("from __future__ import annotations\n", "")
    as_script = 'if __name__ == "__main__":\n    print(open("run.log").read())\n    raise SystemExit\n'
    (place / "model.py").write_text(as_script + model)
    convolution = 'aten.convolution,"[torch.Size([1, 16, 32, 32]), torch.Size([16, 16, 3, 3])]",unet\n'
    (place / "all_cnn_models.csv").write_text((DATA / "operators" / "operators.csv").read_text() + convolution)
    shutil.copy(DATA / "operators" / "master.json", place / "ttnn_operations_master.json")
    shutil.copytree(DATA / "sweep" / "older_logs", place / "test_results")
    _database(place / "report")
    return place


_LANGUAGE_MODEL = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 131072,
}


def _block() -> str:
    """A script that makes what the examples name: ``q`` in line 12, ``x`` in line 41, a gelu in 47, and a weight."""
    lines = ["import ttnn", "", "device = ttnn.open_device(device_id=0)", ""]
    lines += ["class Layer:", "    def __init__(self):"]
    lines += ["        self.weight = ttnn.ones((1024, 1024), layout=ttnn.TILE_LAYOUT, device=device)"]
    lines += ["", "layer = Layer()", "shape = (1024, 1024)", ""]
    lines += ["q = ttnn.ones(shape, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)"]
    lines += [""] * (40 - len(lines))
    lines += ["x = ttnn.add(q, q)", "y = ttnn.matmul(x, layer.weight)"]
    lines += [""] * (46 - len(lines))
    lines += ["z = ttnn.gelu(y)"]
    return "\n".join([*lines, "ttnn.close_device(device)", ""])


def _database(report: Path) -> None:
    report.mkdir()
    with sqlite3.connect(report / "db.sqlite") as database:
        database.executescript(gzip.decompress((DATA / "visualizer" / "n150-report.sql.gz").read_bytes()).decode())


@pytest.fixture(scope="module")
def shell(folder: Path, engines_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment in which the two programs are on the path, and reports, cases and results are there."""
    programs, home = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("home")
    for program, module in (("ttmem", "commands"), ("tt-memory-profiler", "commands.tt_memory_profiler")):
        start = f"import sys; from ttmem.{module} import main; sys.exit(main())"
        path = programs / program
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    for name in ("logs", "models"):
        (home / name).mkdir()
    store = tmp_path_factory.mktemp("store")
    for part in ("device", "torch"):
        if (home_folder() / part).exists():
            (store / part).symlink_to(home_folder() / part)
    (store / "cache").symlink_to(engines_home)  # kernels of other tests save most of the time
    path = f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = environment(PATH=path, HOME=str(home), TTMEM_HOME=str(store), NO_COLOR="1")
    _run("ttmem ops extract all_cnn_models.csv ttnn_operations_master.json -q -o cases.jsonl", folder, variables)
    _run("ttmem sweep run cases.jsonl -q -o results && cp results/results.jsonl expected.jsonl", folder, variables)
    for name in ("results-0.78.0", "before", "after"):
        shutil.copytree(folder / "results", folder / name)
    forking = tmp_path_factory.mktemp("forking")
    with forking_program(forking, environment()):
        yield variables | {"FORKING": str(forking)}


@pytest.fixture
def prepared(folder: Path, shell: dict[str, str], request: pytest.FixtureRequest) -> dict[str, str]:
    """Reports that one example removes are there for the next."""
    missing = [name for name in STORED if not (Path(shell["TTMEM_HOME"]) / "reports" / name).exists()]
    for name in missing:
        _run(f"ttmem profile run.log --json -q -o /dev/null --name {name}", folder, shell)
    if "sweep run" in request.node.name:  # each sweep has a folder of its own
        shutil.rmtree(folder / "results", ignore_errors=True)
    elif not (folder / "results").exists():
        _run("ttmem sweep run cases.jsonl -q -o results", folder, shell)
    if " block" in request.node.name and not (Path(shell["TTMEM_HOME"]) / "reports" / "block").exists():
        _run("ttmem run block.py --board n150 --name block -q", folder, shell)
    for written in ("tables", "bert-report", "out"):  # such are never written over
        shutil.rmtree(folder / written, ignore_errors=True)
    return shell


def _run(line: str, folder: Path, shell: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=shell,
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize("line", [pytest.param(line, id=line, marks=_marks(line)) for line in EXAMPLES])
def test_an_example_does_what_it_shows(line: str, folder: Path, prepared: dict[str, str]) -> None:
    line = line.replace("some-command", "cat run.log").replace("pytest tests/test_model.py", "cat pytest.log")
    if any(line.startswith(words) for words in GOES_ON) and "--once" not in line:
        line = f"timeout --signal=INT 3 {line}"
    elif not any(words in line for words in (*NEEDS_TORCH, *NEEDS_TTNN)):  # these start children of their own
        prepared = prepared | {"PATH": f"{prepared['FORKING']}{os.pathsep}{prepared['PATH']}"}
    done = _run(line, folder, prepared)
    shown = f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    if done.returncode == 3 and any(words in line for words in (*NEEDS_TORCH, *NEEDS_TTNN)):
        pytest.skip(f"NOT RUN WITHOUT ITS ENGINE: {line}")
    assert done.returncode in ((0, 1, 124, 130) if line.startswith("timeout") else (0, 1)), shown
    if not line.startswith("ttmem run "):  # whose script may end as it likes
        assert "Traceback (most recent call last)" not in done.stderr, shown


def test_help_names_only_verbs_that_there_are() -> None:
    """Also the docstrings and hints: whatever looks like a command of ours is one."""
    verbs = set(cli.list_commands(click.Context(cli)))
    for path in sorted((ROOT / "src" / "ttmem").rglob("*.py")):
        for verb in re.findall(r"['`\"]ttmem ([a-z][a-z-]+)", path.read_text()):
            if verb != "saw":  # the recorder's own sentence
                assert verb in verbs, f"{path.relative_to(ROOT)} speaks of 'ttmem {verb}'"
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    for path in (page for page in pages if page.name != "extending.md"):  # which makes a verb of its own
        for verb in re.findall(r"`ttmem ([a-z][a-z-]+)", path.read_text()):
            assert verb in verbs, f"{path.relative_to(ROOT)} speaks of 'ttmem {verb}'"


def test_every_verb_shows_an_example_in_its_help_and_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()

    def walk(command: click.Command, words: str) -> None:
        if not isinstance(command, click.Group):
            assert words in (command.epilog or ""), f"'{words} --help' has none"
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            walk(child, f"{words} {name}")

    walk(cli, "ttmem")
    for verb in cli.list_commands(click.Context(cli)):
        assert re.search(rf"^ttmem {verb}\b", readme, re.MULTILINE), f"README has no example of 'ttmem {verb}'"
