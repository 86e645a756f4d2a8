# SPDX-License-Identifier: Apache-2.0
"""The command that makes importable what a script could not import."""

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
    "jwt": "pyjwt",
    "open_clip": "open-clip-torch",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Packages that are imported by another name than they are installed by."""
_SAME_NAMES = frozenset((
    "accelerate", "datasets", "diffusers", "einops", "evaluate", "fastapi", "h5py", "huggingface_hub", "jax",
    "jinja2", "librosa", "lightning", "loguru", "matplotlib", "networkx", "nltk", "numpy", "omegaconf", "onnx",
    "onnxruntime", "openai", "pandas", "peft", "plotly", "psutil", "pyarrow", "pycocotools", "pydantic", "pytest",
    "requests", "rich", "safetensors", "scipy", "seaborn", "sentencepiece", "soundfile", "sympy", "tabulate",
    "tensorflow", "tiktoken", "timm", "tokenizers", "torch", "torchaudio", "torchmetrics", "torchvision", "tqdm",
    "transformers", "ultralytics", "wandb",
))  # fmt: skip
"""Packages that scripts for models use often, so that their names are no guesses. Any other name may be a folder of the
user's repository, and the index may have a package of a stranger under it."""


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
    """The command that makes a module importable: a folder for PYTHONPATH where it is above the script or in the
    working folder, a package to install where its name is known, else both ways."""
    run = f"ttmem run {shlex.quote(str(script))}"
    for folder in (*script.resolve().parents, Path.cwd()):
        if (folder / module).is_dir() or (folder / f"{module}.py").is_file():
            return f"PYTHONPATH={shlex.quote(str(folder))} {run}"
    install = install_command(interpreter, _NAMES.get(module, module))
    if module in _NAMES or module in _SAME_NAMES:
        return install
    return f"if '{module}' is a folder of your repository: PYTHONPATH=FOLDER {run}; if it is a package: {install}"
