# SPDX-License-Identifier: Apache-2.0
"""Code of the working folder never runs: not in ttmem itself, and in none of the processes that it starts."""

from __future__ import annotations

import ast
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command_line import EXAMPLES, FIVE_RUNS, call, environment
from ttmem.engines.interpreters import Interpreter

SOURCE = Path(__file__).parents[3] / "src" / "ttmem"
TRAPS = (
    *("numpy", "msgspec", "json", "click", "rich", "zstandard", "jinja2", "tomli", "sqlite3", "ctypes", "pickle"),
    *("typing", "contextlib", "importlib", "subprocess", "sitecustomize", "usercustomize", "ttmem", "ttnn", "torch"),
    *("pytest", "transformers", "mcp", "asyncio", "tempfile", "venv", "pip", "runpy", "pkgutil_of_nobody"),
)
CODE = "__import__('os').open({marker!r}, 65, 0o666)\nraise ImportError('a module of the working folder')\n"


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder in which everything that ttmem and its children import lies too, as modules and as packages."""
    folder = tmp_path / "trap"
    folder.mkdir()
    for name in TRAPS:
        code = CODE.format(marker=str(tmp_path / f"ran-{name}"))
        (folder / f"{name}.py").write_text(code)
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(code)
        (folder / name / "__main__.py").write_text(code)
    (folder / "run.log").write_bytes(gzip.decompress(FIVE_RUNS.read_bytes()))
    (folder / "cases.jsonl").write_text(
        '{"id": "a", "op": "silu", "tensors": [{"shape": [1, 1, 64, 64], "dtype": "bfloat16"}], "args": {}}\n'
    )
    return folder


def ran(trap: Path) -> list[str]:
    return sorted(path.name for path in trap.parent.glob("ran-*"))


def hostile_environment(trap: Path, **changes: str) -> dict[str, str]:
    """A common slip on top: PYTHONPATH with an empty part, which means the working folder."""
    base = environment(TTMEM_HOME=str(trap.parent / "home"), **changes)
    return {**base, "PYTHONPATH": base["PYTHONPATH"]}


VERBS: list[list[str]] = [
    ["profile", "run.log", "-j", "2", "--json"],
    ["profile", "run.log", "--csv"],
    ["profile", "run.log", "--llm", "--html", "page.html"],
    ["diff", "run.log", "run.log"],
    ["check", "run.log", "--max-dram", "80%", "--junit", "j.xml", "--sarif", "s.sarif"],
    ["explain", "run.log", "--issue"],
    ["export", "run.log", "--to", "perfetto", "-o", "trace.json"],
    ["cb", "scan", str(SOURCE.parents[1] / "tests" / "data" / "cb"), "-j", "2"],
    ["cb", "simulate", "16", "16"],
    ["sweep", "run", "cases.jsonl", "-o", "results"],
    ["sweep", "limits", "--op", "silu", "--shape", "1x1x32x1024", "--memory", "DRAM"],
    ["ops", "map", "cases.jsonl"],
    ["ops", "tests", "cases.jsonl", "-o", "tests"],
    ["device", "info", "--json"],
    ["reports"],
    ["live", "--once"],
    ["boards"],
    ["tensor", "1x2x3"],
]
# The console script puts its own folder first on the path, not the working folder.
START = """
import sys
del sys.path[0]
import json, os
os.chdir(sys.argv[2])
from ttmem.commands.program import main
sys.stderr.write(json.dumps([main(words) for words in json.loads(sys.argv[1])]))
"""


def run_verbs(trap: Path, verbs: list[list[str]], env: dict[str, str]) -> list[int]:
    """The verbs one after the other in a process that was started elsewhere and works in the folder."""
    command = [sys.executable, "-c", START, json.dumps(verbs), str(trap)]
    done = subprocess.run(command, cwd=trap.parent, env=env, capture_output=True, check=False)
    assert b"internal error" not in done.stderr
    codes: list[int] = json.loads(b"[" + done.stderr.rpartition(b"[")[2])
    return codes


def test_no_verb_runs_a_module_of_the_folder(trap: Path) -> None:
    codes = run_verbs(trap, VERBS, hostile_environment(trap))
    assert ran(trap) == []
    assert set(codes) <= {0, 1}, dict(zip(map(str, VERBS), codes, strict=True))


@pytest.mark.parametrize("words", [["profile", "run.log", "-j", "2"], ["cb", "scan", str(EXAMPLES), "-j", "2"]])
def test_python_m_ttmem_looks_elsewhere_too(trap: Path, words: list[str]) -> None:
    # GIVEN the folder without what Python itself loads before the first line of ours, and without another 'ttmem'
    for name in ("runpy", "importlib", "contextlib", "typing", "ttmem"):
        (trap / f"{name}.py").unlink()
        (trap / name).rename(trap / f"no-{name}")
    environment = hostile_environment(trap)
    done = subprocess.run(
        [sys.executable, "-m", "ttmem", *words], cwd=trap, env=environment, capture_output=True, text=True, check=False
    )
    assert ran(trap) == []
    assert done.returncode in (0, 2), done.stderr


def test_an_empty_part_of_pythonpath_is_not_handed_on(trap: Path) -> None:
    """``PYTHONPATH=$PYTHONPATH:/x`` in a shell where it was not set means the working folder for every interpreter."""
    code = """
        import json, subprocess, sys
        sys.path[:] = [place for place in sys.path if place and not place.endswith("/trap")]
        import os
        os.chdir(sys.argv[1])
        os.environ["PYTHONPATH"] = ":" + os.environ["PYTHONPATH"] + ":."
        from ttmem.base.child_process import ttmem_command, probe_command, foreign_environment
        from ttmem.operators.tracing import find_torch_python
        from ttmem.engines.interpreters import probe
        assert probe(sys.executable, "here").python_version
        try: find_torch_python()
        except Exception: pass
        sys.path.insert(0, sys.argv[1])
        done = subprocess.run(ttmem_command("ttmem.commands.program", "boards", "--json"), capture_output=True)
        assert json.loads(done.stdout)["boards"], done.stderr
    """
    lines = "\n".join(line.strip() for line in code.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", lines, str(trap)],
        cwd=trap.parent,
        env=hostile_environment(trap),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ran(trap) == []


@pytest.mark.slow
def test_the_real_library_is_asked_without_them(trap: Path, ttnn_interpreter: Interpreter) -> None:
    """The worker of a sweep, a script and a suite of the user's that lie elsewhere."""
    (trap.parent / "elsewhere").mkdir()
    script = trap.parent / "elsewhere" / "small.py"
    script.write_text(
        "import ttnn, json\n"
        "def test_it():\n    assert json.dumps([])\n"
        "if __name__ == '__main__':\n"
        "    ttnn.zeros([64, 64], layout=ttnn.TILE_LAYOUT, device=ttnn.open_device(device_id=0))\n"
    )
    env = hostile_environment(trap, TTMEM_TTNN_PYTHON=ttnn_interpreter.path)
    for words in (
        ["sweep", "run", "cases.jsonl", "--engine", "mock", "--memory", "DRAM", "-o", "results"],
        ["run", str(script), "--json", "--no-store"],
        ["test", str(script), "--json"],
        ["device", "doctor"],
    ):
        assert (run_verbs(trap, [words], env), ran(trap)) == ([0], []), words


@pytest.mark.oracle
def test_a_model_is_traced_without_them(trap: Path) -> None:
    torch_python = Path.home() / ".ttmem" / "torch" / "bin" / "python"
    if not torch_python.exists():
        pytest.skip("NO MODEL WAS TRACED: no torch here")
    model = trap.parent / "model.py"
    model.write_text("import torch\ndef load_model():\n    return torch.nn.Conv2d(3, 4, 3)\n")
    start = "import sys; sys.path[0:1] = []; from ttmem.commands.program import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", start, "ops", "extract", f"{model}::load_model"],
        cwd=trap,
        env=hostile_environment(trap, TTMEM_TORCH_PYTHON=str(torch_python)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran(trap) == []
    assert json.loads(done.stdout.splitlines()[0])["op"] == "convolution", done.stderr


def test_children_are_started_in_one_way() -> None:
    """What starts a Python of its own accord (``-m``, ``-c``) is in ``_children``; everything else asks that."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.List)]
        for node in calls:
            words = [item.value for item in node.elts if isinstance(item, ast.Constant)]
            if ("-m" in words or "-c" in words) and "-I" not in words:
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert sorted({place.partition(":")[0] for place in found}) == [
        "__init__.py",
        "base/child_process.py",
    ]


def test_a_child_does_not_outlive_its_parent(tmp_path: Path) -> None:
    """Killed in a way that nothing can catch: the child of a parent that is gone ends at once."""
    child = "ttmem.circular_buffers.scan.files"  # waits for its input, which a third process keeps open
    code = f"""
        import os, subprocess, sys, time
        from ttmem.base.child_process import ttmem_command
        child = subprocess.Popen(ttmem_command({child!r}), stdin=0, stdout=2)
        print(child.pid, flush=True)
        time.sleep(60)
    """
    lines = "\n".join(line.strip() for line in code.splitlines())
    reading, writing = os.pipe()
    parent = subprocess.Popen(
        [sys.executable, "-c", lines], stdin=reading, stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    try:
        assert wait_until_gone(pid)
    finally:
        os.close(reading)
        os.close(writing)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid: int, seconds: float = 10.0) -> bool:
    import time

    deadline = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_alive(pid)


def test_the_user_s_own_environment_reaches_his_own_script(tmp_path: Path) -> None:
    """What is taken out for others stays for programs that are run as they are."""
    (tmp_path / "script.py").write_text("import os; print(os.environ['PYTHONPATH'], 'Executing operation')\n")
    options: dict[str, Any] = {"cwd": tmp_path}
    shown = call(
        *("--log", "script.py"),
        program="tt-memory-profiler",
        env={**environment(), "PYTHONPATH": f"{environment()['PYTHONPATH']}:relative"},
        **options,
    )
    assert "relative" in shown.out + shown.err
