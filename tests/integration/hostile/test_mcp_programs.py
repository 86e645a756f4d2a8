# SPDX-License-Identifier: Apache-2.0
"""What an agent can have run: programs below the roots, with the interpreters that the user chose; nothing else."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command_line import call, environment
from support.mcp_talk import talk
from support.model_configurations import LLAMA_8B
from ttmem.commands.mcp import is_for_people
from ttmem.commands.mcp_server.tools import list_tools
from ttmem.commands.program import cli
from ttmem.engines.interpreters import Interpreter

needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("mcp") is None, reason="THE MCP SERVER WAS NOT TESTED: pip install mcp"
)
OUTSIDE = "is outside of the folders that may be used here"
NOT_IN_A_LINE = "cannot be part of a line"

_MARKS = "open({mark!r}, 'a').write(__file__ + ' ')\n"
_MODEL = """
import torch
def load_model(**settings):
    return torch.nn.Linear(32, 32)
def get_inputs():
    return torch.zeros(1, 32)
"""
_SCRIPT = """
import ttnn
device = ttnn.open_device(device_id=0)
kept = [ttnn.zeros([1, 1, 512, 512], ttnn.bfloat16, ttnn.TILE_LAYOUT, device) for _ in range(3)]
a = ttnn.relu(kept[0])
b = ttnn.relu(a)
ttnn.deallocate(b)
ttnn.close_device(device)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A root with a model and a script, and the same outside of it; each leaves a mark when it runs."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        marks = _MARKS.format(mark=str(tmp_path / "ran"))
        (folder / "m.py").write_text(marks + _MODEL)
        (folder / "s.py").write_text(marks + _SCRIPT)
        (folder / "config.json").write_text(json.dumps(LLAMA_8B))
        (folder / "weights.bin").write_text("")
        (folder / "py.sh").write_text(f"#!/bin/sh\necho py.sh >> {tmp_path / 'ran'}\n")
        (folder / "py.sh").chmod(0o755)
        (folder / "recipe.toml").write_text('extends = "../../outside/recipe"\n')
    (inside / "link.py").symlink_to(outside / "m.py")
    (inside / "script_link.py").symlink_to(outside / "s.py")
    (inside / "folder").symlink_to(outside)
    return tmp_path


def _env(place: Path, **more: str) -> dict[str, str]:
    return environment(TTMEM_SHM_DIR=str(place / "shm"), **{"TTMEM_HOME": str(place / "home"), **more})


def _ran(place: Path) -> list[str]:
    return (place / "ran").read_text().split() if (place / "ran").exists() else []


@needs_sdk
@pytest.mark.slow
def test_a_list_runs_nothing_outside_of_the_roots(place: Path, torch_python: str) -> None:
    # GIVEN lists below the root, each line of which names something to run outside of it
    inside, outside = place / "inside", place / "outside"
    lines = {
        f"{outside}/m.py::load_model": OUTSIDE,
        "link.py::load_model": OUTSIDE,
        "../outside/m.py::load_model": OUTSIDE,
        "folder/m.py::load_model": OUTSIDE,
        f"m.py::load_model --inputs {outside}/m.py::get_inputs": OUTSIDE,
        "m.py::load_model --inputs=folder/m.py::get_inputs": OUTSIDE,
        f"m.py::load_model --set weights={outside}/weights.bin": OUTSIDE,
        f"hf:ViTConfig --set 'name_or_path=[\"{outside}/weights.bin\"]'": OUTSIDE,
        f"{outside}/s.py": OUTSIDE,
        "script_link.py": OUTSIDE,
        "../outside/s.py --engine mock": OUTSIDE,
        f"config.json --recipe {outside}/recipe.toml": OUTSIDE,
        f"config.json --python {outside}/py.sh --engine mock": NOT_IN_A_LINE,
        f"config.json --python={outside}/py.sh --engine mock": NOT_IN_A_LINE,
        "config.json --python py.sh --engine mock": NOT_IN_A_LINE,
        f"m.py::load_model --torch-python {outside}/py.sh": NOT_IN_A_LINE,
        "m.py::load_model --torch-python ./py.sh": NOT_IN_A_LINE,
        "config.json --recipe recipe.toml": "extends '../../outside/recipe'",
    }
    calls: list[tuple[str, dict[str, Any]]] = []
    for number, line in enumerate(lines):
        (inside / f"{number}.txt").write_text(f"{line}\n")
        calls.append(("fit", {"list": f"{number}.txt", "output": f"atlas{number}"}))
    # WHEN an agent asks for them
    results = talk(_env(place, TTMEM_TORCH_PYTHON=torch_python), *calls, folder=inside)["results"]
    # THEN nothing of it ran, and the answer says why
    assert _ran(place) == []
    for (line, reason), result in zip(lines.items(), results, strict=True):
        assert reason in result["text"], (line, result["text"])


@needs_sdk
@pytest.mark.slow
def test_a_list_of_models_below_the_root_is_answered(place: Path, torch_python: str) -> None:
    (place / "inside" / "models.txt").write_text("m.py::load_model --inputs m.py::get_inputs --engine twin\n")
    asked = ("fit", {"list": "models.txt", "output": "atlas"})
    (result,) = talk(_env(place, TTMEM_TORCH_PYTHON=torch_python), asked, folder=place / "inside")["results"]
    assert result["document"]["rows"][0]["fits"] is True, result
    assert {Path(name) for name in _ran(place)} == {place / "inside" / "m.py"}


@needs_sdk
@pytest.mark.slow
@pytest.mark.parametrize("is_stored", [False, True], ids=["a file", "a stored report"])
def test_a_profile_does_not_choose_a_script_outside_of_the_roots(
    place: Path, with_ttnn: Interpreter, is_stored: bool
) -> None:
    # GIVEN what 'ttmem run' captured of a script outside, as a file below the root or in the store
    inside, outside = place / "inside", place / "outside"
    env = _env(place, TTMEM_TTNN_PYTHON=with_ttnn.path)
    done = call("run", outside / "s.py", "--name", "captured", "--json", env=env)
    assert done.code == 0, done.err
    (stored,) = (place / "home" / "reports" / "captured").glob("*.ttmem")
    (inside / "captured.ttmem").write_bytes(stored.read_bytes())
    (place / "ran").unlink()
    # WHEN an agent has its edits verified
    source = "captured" if is_stored else "captured.ttmem"
    asked = [("tune", {"source": source, "verify": True}), ("fit", {"target": str(outside / "s.py")})]
    results = talk(env, *asked, folder=inside)["results"]
    # THEN the script does not run, and the reason names it
    assert _ran(place) == []
    for result in results:
        assert result["failed"]
        assert "s.py" in result["text"], result["text"]
    assert OUTSIDE in results[1]["text"]


@needs_sdk
@pytest.mark.slow
def test_scripts_below_the_root_run(place: Path, with_ttnn: Interpreter) -> None:
    env = _env(place, TTMEM_TTNN_PYTHON=with_ttnn.path)
    asked = [("run", {"script": "s.py", "name": "mine"}), ("tune", {"source": "mine", "verify": True})]
    results = talk(env, *asked, ("fit", {"target": "s.py"}), folder=place / "inside")["results"]
    assert [result["failed"] for result in results] == [False] * 3, results
    assert len(_ran(place)) == 3


def test_no_tool_takes_an_interpreter() -> None:
    named = {parameter.name for tool in list_tools(cli, is_for_people) for parameter in tool.parameters}
    assert not {name for name in named if "python" in name}


def test_the_sandbox_holds_for_every_way_to_start_a_program(place: Path) -> None:
    code = """
import asyncio, json, os, pty, subprocess, sys
from ttmem.base.file_sandbox import FileSandbox
inside, outside = sys.argv[1:]
os.chdir(inside)
FileSandbox.around_folders([inside]).activate()
def run(*words, **more):
    return lambda: subprocess.run(words, capture_output=True, check=True, **more)
ways = {
    "absolute": run(f"{outside}/py.sh"), "dots": run("../outside/py.sh"), "link": run("folder/py.sh"),
    "below": run("./py.sh"), "executable": run("python3", executable=f"{outside}/py.sh"),
    "bytes": run(os.fsencode(f"{outside}/py.sh")), "preexec": run("./py.sh", preexec_fn=lambda: None),
    "exec": lambda: os.execv("./py.sh", ["py.sh"]), "system": lambda: os.system("./py.sh"),
    "posix_spawn": lambda: os.posix_spawn("./py.sh", ["py.sh"], os.environ), "pty": lambda: pty.spawn("./py.sh"),
    "asyncio": lambda: asyncio.run(asyncio.create_subprocess_exec("./py.sh")),
}
through = []
for name, way in ways.items():
    try: way()
    except PermissionError: continue
    except Exception as error: name += f" ({error!r})"
    through.append(name)
own = subprocess.run([sys.executable, "-c", "print('mine')"], capture_output=True, text=True, check=True)
print(json.dumps([through, own.stdout]))
"""
    words = [sys.executable, "-c", code, str(place / "inside"), str(place / "outside")]
    done = subprocess.run(words, env=_env(place), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [[], "mine\n"]
    assert _ran(place) == []
