# SPDX-License-Identifier: Apache-2.0
"""The command that installs what a script could not import."""

import re
import shlex
from pathlib import Path

from ttmem.engines.interpreters import PINNED_TTNN, Interpreter, managed_python

_MISSING = re.compile(r"No module named '(\w+)'")
"""A name without dots: of a package that is there but lacks a part, Python writes ``torch.parts``."""
_NAMES = {
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "google": "protobuf",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Packages that are imported by another name than they are installed by."""


def missing_module(error: str, message: str) -> str:
    """The module whose absence ended a script; empty when it ended for another reason."""
    found = _MISSING.search(message) if error in ("ModuleNotFoundError", "ImportError") else None
    return found[1] if found else ""


def install_command(interpreter: Interpreter, *packages: str) -> str:
    """The command that adds packages to the environment of an interpreter that has ttnn."""
    release = interpreter.ttnn_version or PINNED_TTNN
    if Path(interpreter.path) == managed_python(release):
        of_release = "" if release == PINNED_TTNN else f" --ttnn {release}"
        return f"ttmem device install{of_release} --with {','.join(packages)}"
    return f"{shlex.quote(interpreter.path)} -m pip install {' '.join(packages)}"


def remedy(module: str, interpreter: Interpreter, script: Path) -> str:
    """The command that makes a module importable: a folder for PYTHONPATH where it lies above the script or in the
    working folder, else a package to install."""
    for folder in (*script.resolve().parents, Path.cwd()):
        if (folder / module).is_dir() or (folder / f"{module}.py").is_file():
            return f"PYTHONPATH={shlex.quote(str(folder))} ttmem run {shlex.quote(str(script))}"
    return install_command(interpreter, _NAMES.get(module, module))
