# SPDX-License-Identifier: Apache-2.0
"""Packages beside ttnn: what a script could not import, and ``ttmem device install --with``."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.command_line import call, environment
from ttmem.engines.install import split_packages
from ttmem.engines.interpreters import PINNED_TTNN, Interpreter, locate_managed_python

EMPTY = "no ttnn operation was recorded"


def wheel(folder: Path, name: str, version: str, *needs: str) -> None:
    """A package of one module that holds its version."""
    folder.mkdir(exist_ok=True)
    about = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/__init__.py", f"version = {version!r}\n")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A managed environment with a package that is called ttnn, and a folder of wheels to install from."""
    home = tmp_path_factory.mktemp("home")
    wheels = home / "wheels"
    wheel(wheels, "ttnn", PINNED_TTNN, "deep_need<9", "speedups; extra == 'fast'")
    wheel(wheels, "deep_need", "1.0", "deeper")
    wheel(wheels, "deep_need", "2.0", "deeper")
    wheel(wheels, "deeper", "1.0")
    wheel(wheels, "deeper", "2.0")
    wheel(wheels, "speedups", "1.0")
    wheel(wheels, "pytest", "9.0")
    wheel(wheels, "modest", "1.0", "deeper", "deep_need")
    wheel(wheels, "pushy", "1.0", "deeper>=2")
    folder = locate_managed_python().parents[1].name
    subprocess.run([sys.executable, "-m", "venv", str(home / folder)], check=True)
    first = ["ttnn", "pytest", "deep_need==1.0", "deeper==1.0"]
    pip = [str(home / folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-index", "--find-links"]
    subprocess.run([*pip, str(wheels), *first], check=True)
    return home


def of(home: Path) -> dict[str, str]:
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(home / "wheels"), "PIP_CONFIG_FILE": "/dev/null"}
    return {**environment(), "TTMEM_HOME": str(home), **offline}


def versions(home: Path) -> dict[str, str]:
    code = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    python = home / locate_managed_python().parents[1].name / "bin" / "python"
    found: dict[str, str] = json.loads(subprocess.run([python, "-c", code], capture_output=True, check=True).stdout)
    return found


def test_packages_are_added_and_what_ttnn_needs_stays(home: Path) -> None:
    before = versions(home)
    done = call("device", "install", "--with", "modest", env=of(home))
    assert done.code == 0, done.err
    assert "installing modest" in done.err
    assert "Successfully installed modest-1.0" in done.err
    assert versions(home) == {**before, "modest": "1.0"}


def test_a_package_that_would_replace_what_ttnn_needs_is_refused(home: Path) -> None:
    before = versions(home)
    done = call("device", "install", "--with", "pushy", env=of(home))
    assert (done.code, done.out) == (3, "")
    assert "pip could not install pushy" in done.err
    assert "ttnn's own requirements are not changed" in done.err
    assert versions(home) == before


@pytest.mark.parametrize("word", ["--index-url=x", "-r x.txt", "../folder", "https:x", "a b"])
def test_only_names_of_packages_reach_pip(home: Path, word: str) -> None:
    done = call("device", "install", f"--with={word}", env=of(home))
    assert done.code == 2
    assert "`--with` expects names of packages" in done.err


def test_a_comma_before_a_condition_belongs_to_the_package() -> None:
    assert split_packages("torch>=2.6,<3, transformers,open_clip[all]") == (
        "torch>=2.6,<3",
        "transformers",
        "open_clip[all]",
    )


@pytest.mark.oracle
class TestMissingModules:
    @pytest.fixture
    def script(self, with_ttnn: Interpreter, tmp_path: Path) -> Path:
        (tmp_path / "above").mkdir()
        return tmp_path / "above" / "s.py"

    def test_the_command_names_the_interpreter(self, with_ttnn: Interpreter, script: Path, tmp_path: Path) -> None:
        # GIVEN an interpreter that was named
        script.write_text("import ttnn\nimport yaml_of_nobody\n")
        env = {**environment(), "TTMEM_HOME": str(tmp_path), "TTMEM_TTNN_PYTHON": with_ttnn.path}
        done = call("run", str(script), env=env)
        # THEN the answer is how to install it there, and nothing is stored
        assert done.code == 1
        folder = f"if 'yaml_of_nobody' is a folder of your repository: PYTHONPATH=FOLDER ttmem run {script}"
        package = f"if it is a package: {with_ttnn.path} -m pip install yaml_of_nobody"
        assert f"next: {folder}; {package}" in done.err
        assert EMPTY in done.out
        assert "ModuleNotFoundError at" in done.out
        assert "explain" not in done.out + done.err
        assert json.loads(call("reports", "--json", env=env).out)["reports"] == []

    def test_the_managed_environment_has_a_command_of_its_own(
        self, with_ttnn: Interpreter, script: Path, tmp_path: Path
    ) -> None:
        # GIVEN the environment with ttnn at the managed place
        (tmp_path / "device").symlink_to(Path(with_ttnn.path).parents[1])
        env = {**environment(), "TTMEM_HOME": str(tmp_path), "TTMEM_TTNN_PYTHON": ""}
        script.write_text("import torchmetrics.text\n")
        done = call("run", str(script), "--no-store", "--json", env=env)
        hint = "ttmem device install --with torchmetrics"
        assert (done.code, f"next: {hint}" in done.err) == (1, True)
        assert any(warning.endswith(hint) for warning in json.loads(done.out)["source"]["warnings"])

    def test_a_module_above_the_script_is_no_package(self, script: Path, tmp_path: Path) -> None:
        (tmp_path / "models_of_mine").mkdir()
        (tmp_path / "models_of_mine" / "__init__.py").write_text("")
        script.write_text("import models_of_mine\n")
        done = call("run", str(script), "--no-store")
        assert f"next: PYTHONPATH={tmp_path} ttmem run {script}" in done.err

    def test_an_unknown_name_may_be_a_folder(self, with_ttnn: Interpreter, script: Path, tmp_path: Path) -> None:
        (tmp_path / "device").symlink_to(Path(with_ttnn.path).parents[1])
        env = {**environment(), "TTMEM_HOME": str(tmp_path), "TTMEM_TTNN_PYTHON": ""}
        script.write_text("from models_of_nobody.common import x\n")
        package = "if it is a package: ttmem device install --with models_of_nobody"
        for verb in ("run", "fit"):
            done = call(verb, str(script), "--no-store", env=env)
            folder = f"if 'models_of_nobody' is a folder of your repository: PYTHONPATH=FOLDER ttmem {verb} {script}"
            assert f"{folder}; {package}" in done.err

    def test_a_part_that_a_package_lacks_is_not_installed(self, script: Path) -> None:
        script.write_text("import json.parts\n")
        done = call("run", str(script), "--no-store")
        assert (done.code, "next:" in done.err) == (1, False)

    def test_a_time_limit_is_named(self, script: Path) -> None:
        script.write_text("import time\ntime.sleep(60)\n")
        done = call("run", str(script), "--no-store", "--timeout", "2")
        assert done.code == 143
        assert EMPTY in done.out
        assert "stopped by --timeout 2" in done.err
        script.write_text("import time, ttnn\nttnn.open_device(device_id=0)\ntime.sleep(60)\n")
        told = json.loads(call("run", str(script), "--no-store", "--timeout", "4", "--json").out)
        assert told["failure"]["class"] == "timeout"
        assert told["failure"]["message"] == "stopped by --timeout 4 s"
