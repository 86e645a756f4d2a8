# SPDX-License-Identifier: Apache-2.0
"""What is loaded when: the cheap things stay cheap because they import little, not because a timer says so today."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import ROOT, environment
from ttmem.base.toml import loads
from ttmem.commands.program import cli

HEAVY = {"numpy", "rich", "jinja2", "msgspec", "zstandard", "torch", "ttnn", "asyncio"}
ROOMS = {entry.name for entry in (ROOT / "src" / "ttmem").iterdir() if (entry / "__init__.py").exists()}


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running ``code``."""
    program = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines())


def run_of(*arguments: str) -> str:
    """A program that runs the command line and keeps its output to itself."""
    return f"""
import contextlib, io
from ttmem.commands.program import main
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
    assert main({list(arguments)!r}) == 0
"""


def find_rooms(modules: set[str]) -> set[str]:
    return {room for room in ROOMS if f"ttmem.{room}" in modules}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["-h"]])
def test_help_and_version_load_no_room_and_nothing_heavy(arguments: list[str]) -> None:
    modules = loaded(run_of(*arguments))
    assert find_rooms(modules) == {"base", "commands"}
    assert modules & HEAVY == set()
    verbs = {name for name in modules if name.startswith("ttmem.commands.")}
    assert verbs == {f"ttmem.commands.{name}" for name in ("command_line", "program")}, (
        "no verb is loaded before it is used"
    )


@pytest.mark.parametrize("verb", cli.lines)
def test_a_verbs_help_loads_nothing_heavy_either(verb: str) -> None:
    modules = loaded(run_of(verb, "--help"))
    assert find_rooms(modules) == {"base", "commands"}
    assert modules & HEAVY == set()


def test_importing_ttmem_is_cheap_and_its_public_names_are_there() -> None:
    modules = loaded("import ttmem")
    assert {name for name in modules if name.startswith("ttmem")} == {
        "ttmem",
        "ttmem.base",
        "ttmem.base.errors",
        "ttmem.base.lazy",
        "ttmem._version",
    }
    assert modules & {*HEAVY, "click"} == set()
    import ttmem

    assert dir(ttmem) == sorted(ttmem.__all__)
    assert ttmem.Profile.__module__ == "ttmem.profile.model"
    calls = set(ttmem.__all__) - {"Profile", "TtmemError", "__version__"}
    assert {"read", "explain", "diff", "check", "run", "sweep", "export"} <= calls
    assert all(callable(getattr(ttmem, name)) for name in calls)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ttmem.nonsense


def test_the_answer_for_a_script_needs_no_terminal_library() -> None:
    log = ROOT / "docs" / "examples" / "real-oom.log"
    modules = loaded(run_of("profile", str(log), "--json", "--no-store"))
    assert modules & {"rich", "jinja2", "torch", "ttnn"} == set()


def test_every_room_and_every_module_beside_them_has_its_place() -> None:
    """The linter refuses what is not listed (exhaustive); here: that nobody switched this off."""
    contracts = loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (house,) = (contract for contract in contracts if contract["type"] == "layers")
    assert (house["containers"], house["exhaustive"]) == (["ttmem"], True)
    placed = {name.strip(" ()") for layer in house["layers"] for name in layer.split("|")}
    assert placed >= ROOMS
    worker = "ttmem.readers.** -> ttmem.engines.worker."  # a layer of its own, below all others
    assert all(edge.startswith(("ttmem.profile.model -> ttmem.reports.", worker)) for edge in house["ignore_imports"])


def test_reading_a_source_and_the_plugin_of_pytest_load_no_command_line() -> None:
    log = ROOT / "docs" / "examples" / "real-oom.log"
    assert "click" not in loaded(f"import ttmem; ttmem.read({str(log)!r})")
    assert "click" not in loaded("import ttmem.commands.pytest_plugin")


def test_verbs_do_not_import_verbs() -> None:
    """Code that two verbs need is in a file of its own; verbs are files that define a ``command``."""
    folder = ROOT / "src" / "ttmem" / "commands"
    for path in folder.glob("*.py"):
        if path.stem not in cli.lines:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ttmem.commands"):
                inside = f"{node.module}.".split(".")[2]
                names = {inside} if inside else {alias.name for alias in node.names}
                assert not (names & {*cli.lines} - {path.stem}), f"{path.name} imports {node.module}"


def test_every_source_file_names_its_licence() -> None:
    for folder in ("src", "tests", "bench", "tools"):
        for path in Path(ROOT / folder).rglob("*.py"):
            text = path.read_text()
            assert not text or text.startswith("# SPDX-License-Identifier: Apache-2.0"), path
