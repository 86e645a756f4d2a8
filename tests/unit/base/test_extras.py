# SPDX-License-Identifier: Apache-2.0
"""The command that installs an optional part works where ttmem is on no index."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from ttmem.base.extras import install_command

SOURCE = Path(__file__).parents[3]
EXTRAS = metadata.metadata("ttmem").get_all("Provides-Extra") or []


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_is_installed_by_its_packages(extra: str) -> None:
    words = shlex.split(install_command(extra))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    assert words[4:]
    assert not any("ttmem" in word for word in words[4:])


def test_what_is_named_can_be_installed() -> None:
    """pip itself takes the command: what it asks for is there already."""
    words = shlex.split(install_command("serve"))
    done = subprocess.run([*words, "--no-index", "--dry-run", "-q"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pipx_and_another_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert install_command("torch", "/opt/a b/python").startswith("'/opt/a b/python' -m pip install 'torch>=")
    (tmp_path / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install_command("mcp").startswith("pipx inject ttmem 'mcp>=")


def test_no_text_names_a_package_that_no_index_has() -> None:
    pages = [*(SOURCE / "docs").glob("*.md"), SOURCE / "README.md", *(SOURCE / "src").rglob("*.py")]
    assert [str(page) for page in pages if "pip install 'ttmem" in page.read_text()] == []
