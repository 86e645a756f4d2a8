# SPDX-License-Identifier: Apache-2.0
"""The command that installs an optional part, for however ttmem is installed.

It names the packages of the extra and not ``ttmem[extra]``, which only works where an index has ttmem.
"""

import importlib.util
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path


def install_command(extra: str, python: str | None = None) -> str:
    """The command for the environment that runs ttmem, or for another interpreter."""
    packages = _packages(extra)
    if not packages:
        return f"pip install '.[{extra}]' (in the checkout of ttmem)"
    words = shlex.join(packages)
    if python is None and Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx inject ttmem {words}"
    if python is None and importlib.util.find_spec("pip") is None:  # as uv makes environments
        return f"uv pip install --python {shlex.quote(sys.executable)} {words}"
    return f"{shlex.quote(python or sys.executable)} -m pip install {words}"


def _packages(extra: str) -> list[str]:
    """Return the packages of the extra; empty where ttmem runs without being installed."""
    try:
        needs = metadata.requires("ttmem") or []
    except metadata.PackageNotFoundError:
        return []
    marker = re.compile(rf"\s*extra\s*==\s*['\"]{re.escape(extra)}['\"]\s*")
    parts = (need.partition(";") for need in needs)
    return [name.strip() for name, _, condition in parts if marker.fullmatch(condition)]
