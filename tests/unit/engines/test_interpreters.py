# SPDX-License-Identifier: Apache-2.0
"""Finding an interpreter that has ttnn, with made-up ones: nothing here needs the library."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from ttmem.base.errors import BadInputError, MissingPartError
from ttmem.engines import install as installing
from ttmem.engines import interpreters
from ttmem.engines.install import install
from ttmem.engines.interpreters import (
    PINNED_TTNN,
    Interpreter,
    choose_python,
    find_interpreter,
    find_pythons,
    locate_managed_python,
    probe,
)

TOLD = {
    "python_version": "3.12.1",
    "implementation": "CPython",
    "ttnn_version": "0.81.1",
    "package": "/somewhere/ttnn",
    "torch_version": "",
    "pytest_version": "8.2",
    "has_venv": True,
}


def pretend(path: Path, **changes: object) -> Path:
    """A program that answers the probe as an interpreter with these things would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{json.dumps({**TOLD, **changes})}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine where nothing has ttnn."""
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TTMEM_TTNN_PYTHON", raising=False)
    monkeypatch.setattr(sys, "executable", str(pretend(tmp_path / "this" / "python", ttnn_version="", package="")))
    return tmp_path


def test_this_interpreter_is_asked_what_it_has() -> None:
    found = probe(sys.executable, "this one")
    assert isinstance(found, Interpreter)
    assert found.python_version.startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert found.pytest_version == pytest.__version__


def test_a_folder_called_ttnn_in_the_working_directory_is_not_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ttnn").mkdir()
    monkeypatch.chdir(tmp_path)
    found = probe(sys.executable, "this one")
    assert isinstance(found, Interpreter)
    assert found.package != str(tmp_path / "ttnn")


@pytest.mark.parametrize(
    ("script", "reason"), [("exit 3", "does not answer: status 3"), ("echo no >&2; exit 1", "does not answer: no")]
)
def test_what_does_not_answer_is_said(tmp_path: Path, script: str, reason: str) -> None:
    broken = tmp_path / "python"
    broken.write_text(f"#!/bin/sh\n{script}\n")
    broken.chmod(0o755)
    assert reason in str(probe(broken, "PATH"))
    assert "does not run" in str(probe(tmp_path / "missing", "PATH"))


def test_the_order_is_named_variable_this_managed(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a managed environment
    managed = pretend(locate_managed_python())
    assert find_interpreter().path == str(managed)
    # WHEN this interpreter has ttnn too, it is nearer
    monkeypatch.setattr(sys, "executable", str(pretend(alone / "that" / "python")))
    assert find_interpreter().found_by == "this interpreter"
    # AND what the user names is nearer still
    monkeypatch.setenv("TTMEM_TTNN_PYTHON", str(pretend(alone / "variable" / "python")))
    assert find_interpreter().found_by == "TTMEM_TTNN_PYTHON"
    assert find_interpreter(str(pretend(alone / "option" / "python"))).found_by == "--python"


def test_without_any_the_install_command_is_the_hint(alone: Path) -> None:
    with pytest.raises(MissingPartError, match="no interpreter with ttnn") as raised:
        find_interpreter()
    assert raised.value.exit_code == 3
    assert "ttmem device install" in raised.value.hint


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ttnn_version": "", "package": ""}, "has no ttnn"),
        ({"ttnn_version": "0.74.0"}, "mock boards need 0.75 or newer"),
    ],
)
def test_a_named_one_must_do(alone: Path, changes: dict[str, object], reason: str) -> None:
    pretend(locate_managed_python())
    with pytest.raises(MissingPartError, match=reason):
        find_interpreter(str(pretend(alone / "named", **changes)))


def test_a_build_without_a_version_is_given_a_chance(alone: Path) -> None:
    found = find_interpreter(str(pretend(alone / "named", ttnn_version="")))
    assert found.ttnn_version == ""
    assert not found.why_not


def test_pythons_are_looked_for_where_people_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN interpreters on PATH, of pyenv, uv and conda, some of versions without a wheel
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for variable in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(interpreters, "sys", type("Other", (), {"version": "3.11.7 (main)", "executable": "python"}))
    expected = [
        pretend(tmp_path / "bin" / "python3.12"),
        pretend(tmp_path / ".pyenv" / "versions" / "3.12.10" / "bin" / "python"),
        pretend(tmp_path / ".pyenv" / "versions" / "3.12.9" / "bin" / "python"),
        pretend(tmp_path / ".local/share/uv/python/cpython-3.12.3-linux/bin/python3.12"),
        pretend(tmp_path / "miniforge3" / "envs" / "tt" / "bin" / "python3.12"),
        pretend(tmp_path / "bin" / "python3.10"),
    ]
    pretend(tmp_path / ".pyenv" / "versions" / "3.11.7" / "bin" / "python")
    (tmp_path / "bin" / "python3.12").chmod(0o755)
    # THEN they come best first, and each once
    assert [path for path, _ in find_pythons()] == [str(path) for path in expected]


def test_install_says_why_no_interpreter_will_do(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = pretend(alone / "old" / "python3.12", python_version="3.11.2")
    bare = pretend(alone / "bare" / "python3.12", has_venv=False)
    monkeypatch.setattr(installing, "find_pythons", lambda: [(str(old), "PATH"), (str(bare), "pyenv")])
    with pytest.raises(MissingPartError, match=r"no CPython 3\.12 or 3\.10 that runs") as raised:
        install()
    assert "is Python 3.11.2" in raised.value.message
    assert "venv and ensurepip" in raised.value.message
    assert raised.value.exit_code == 3


def test_a_failed_install_leaves_no_half_environment(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN an interpreter that makes environments, whose pip finds nothing
    base = alone / "base" / "python3.12"
    pretend(base)
    answer = base.read_text().splitlines()[1]
    base.write_text(
        f"""#!/bin/sh
case "$3" in
  venv) mkdir -p "$4/bin"
        printf '#!/bin/sh\\necho "ERROR: No matching distribution found for ttnn" >&2; exit 1\\n' > "$4/bin/python"
        chmod +x "$4/bin/python";;
  *) {answer};;
esac
"""
    )
    monkeypatch.setattr(installing, "find_pythons", lambda: [(str(base), "PATH")])
    # THEN the reason is pip's own, and nothing stays
    with pytest.raises(MissingPartError, match="No matching distribution found for ttnn"):
        install()
    assert not locate_managed_python().parent.parent.exists()


def test_an_environment_that_is_there_is_found_and_not_made_again(alone: Path) -> None:
    pretend(locate_managed_python())
    done = install()
    assert (done.made_now, done.interpreter.path) == (False, str(locate_managed_python()))


@pytest.mark.parametrize("release", ["", "latest", "0.81", "../x", "0.81.1; rm", "-r", "0.78.0rc1"])
def test_a_release_is_a_version_and_nothing_else(release: str) -> None:
    is_version = bool(re.fullmatch(r"[0-9.rc]+", release))
    with pytest.raises(MissingPartError if is_version else BadInputError) as error:
        choose_python(None, release)
    assert error.value.hint


def test_releases_lie_beside_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path))
    python = locate_managed_python("0.78.0")
    python.parent.mkdir(parents=True)
    python.touch()
    assert choose_python(None, "0.78.0") == str(tmp_path / "device-0.78.0" / "bin" / "python")
    assert locate_managed_python(PINNED_TTNN).parent.parent.name == "device"
    assert choose_python("mine", None) == "mine"
    with pytest.raises(BadInputError, match="choose one"):
        choose_python("mine", "0.78.0")
    with pytest.raises(BadInputError, match="need ttnn"):
        choose_python(None, "0.60.0")
