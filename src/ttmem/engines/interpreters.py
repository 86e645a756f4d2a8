# SPDX-License-Identifier: Apache-2.0
"""Interpreters that have ttnn: it has wheels for CPython 3.10 and 3.12 only, and ttmem may run on another."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ttmem.base.child_process import foreign_environment, probe_command
from ttmem.base.errors import BadInputError, MissingPartError
from ttmem.base.home import home_folder
from ttmem.hardware import DEFAULT_RELEASE

PINNED_TTNN = DEFAULT_RELEASE.name
"""The release whose bank tables, messages and captures this ttmem was tested with."""
OLDEST_TTNN = (0, 75)
"""Older releases crash on a mock cluster or do not check for clashes there (measured per release)."""
WHEEL_PYTHONS = ("3.12", "3.10")
"""CPython versions that the pinned release has wheels for, the better one first."""
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,6}){0,2}(?:rc\d{1,4}|\.dev\d{1,10})?")
VARIABLE = "TTMEM_TTNN_PYTHON"
NAMED = ("--python", VARIABLE)
"""Ways in which a user names an interpreter."""

_PROBE = """
import importlib.metadata, importlib.util, json, platform, sys
def version(name):
    try: return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError: return ''
def has(name): return importlib.util.find_spec(name) is not None
spec = importlib.util.find_spec('ttnn')
places = list(spec.submodule_search_locations or []) if spec and spec.origin else []
print(json.dumps({
    'python_version': platform.python_version(), 'implementation': platform.python_implementation(),
    'ttnn_version': version('ttnn'), 'package': places[0] if places else '', 'torch_version': version('torch'),
    'pytest_version': version('pytest'), 'has_venv': has('venv') and has('ensurepip'),
}))
"""
"""Asks without importing ttnn, which takes half a second and may crash."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that runs, and what it has."""

    path: str
    found_by: str
    """Source of the path, in words for the user."""
    python_version: str
    implementation: str
    ttnn_version: str
    """Empty when it has none, or a build without metadata (then ``package`` is set)."""
    package: str
    torch_version: str
    pytest_version: str
    has_venv: bool

    @property
    def why_not(self) -> str:
        """Reason why ttnn cannot run with it; empty when it can. An unreadable version is given a chance."""
        numbers = re.match(r"(\d+)\.(\d+)", self.ttnn_version)
        if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST_TTNN:
            oldest = ".".join(map(str, OLDEST_TTNN))
            return f"{self.path} has ttnn {self.ttnn_version}; mock boards need {oldest} or newer"
        return "" if self.package else f"{self.path} (Python {self.python_version}) has no ttnn"


def locate_managed_folder(release: str = PINNED_TTNN) -> Path:
    """Return the folder of ``ttmem device install``; other releases than the pinned one are next to it."""
    return home_folder() / ("device" if release == PINNED_TTNN else f"device-{release}")


def locate_managed_python(release: str = PINNED_TTNN) -> Path:
    """Return the interpreter of a managed environment; it may not exist."""
    return locate_managed_folder(release) / "bin" / "python"


def choose_python(python: str | None, release: str | None) -> str | None:
    """Return the interpreter of ``--python PATH`` or ``--ttnn VERSION``, a managed environment; None without both."""
    if release is None:
        return python
    if python is not None:
        raise BadInputError("--python and --ttnn both select a ttnn; choose one")
    check_release(release)
    if not locate_managed_python(release).exists():
        raise MissingPartError(
            f"ttnn {release} is not installed", hint=f"ttmem device install --ttnn {release}", where="--ttnn"
        )
    return str(locate_managed_python(release))


def check_release(release: str) -> None:
    """Check a version as the index writes it; anything else would end up in a path and on pip's command line."""
    numbers = _RELEASE.fullmatch(release)
    if numbers is None:
        raise BadInputError(f"'{release}' is not a release of ttnn", hint="write a version such as 0.78.0")
    if (int(numbers[1]), int(numbers[2])) < OLDEST_TTNN:
        oldest = ".".join(map(str, OLDEST_TTNN))
        raise BadInputError(f"mock boards need ttnn {oldest} or newer, not {release}")


def probe(path: str | Path, found_by: str) -> Interpreter | str:
    """Return what an interpreter has, or the reason why it cannot be used."""
    try:
        command, environment = probe_command(path, _PROBE), foreign_environment()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"{path} does not run: {getattr(error, 'strerror', None) or error}"
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return f"{path} does not answer: {last}"
    return Interpreter(str(path), found_by, **answer)


def find_interpreter(python: str | None = None) -> Interpreter:
    """Return the interpreter to run ttnn with: the one named, ``TTMEM_TTNN_PYTHON``, this one, the managed one.

    A named interpreter must do; the others are tried in turn.
    """
    reasons = []
    for path, found_by in list_candidates(python):
        is_named = found_by in NAMED
        if not is_named and not Path(path).exists():
            continue
        found = probe(path, found_by)
        reason = found if isinstance(found, str) else found.why_not
        if not reason and isinstance(found, Interpreter):
            return found
        if is_named:
            install = f"{path} -m pip install ttnn=={PINNED_TTNN}"
            hint = f"install it there ({install}), or leave {found_by} out and run 'ttmem device install'"
            raise MissingPartError(reason, hint=hint, where=found_by)
        reasons.append(reason)
    raise MissingPartError(
        f"no interpreter with ttnn ({'; '.join(reasons)})",
        hint="make one with 'ttmem device install', or name yours: --python PATH",
    )


def list_candidates(python: str | None) -> Iterator[tuple[str, str]]:
    """Yield places of ttnn, best first: (path, how it was found). A bare name is looked up as a shell would."""
    for name, found_by in zip((python, os.environ.get(VARIABLE)), NAMED, strict=True):
        if name:
            yield name if os.sep in name else shutil.which(name) or name, found_by
    yield sys.executable, "this interpreter"
    yield str(locate_managed_python()), "the managed environment"


def find_pythons() -> Iterator[tuple[str, str]]:
    """Yield interpreters of versions with wheels, best first: (path, how it was found). They may not run."""
    seen: set[str] = set()
    for version in WHEEL_PYTHONS:
        for path, found_by in _list_pythons(version):
            real = os.path.realpath(path)
            if real not in seen and os.access(path, os.X_OK):
                seen.add(real)
                yield path, found_by


def _list_pythons(version: str) -> Iterator[tuple[str, str]]:
    home = Path.home()
    if sys.version.startswith(f"{version}."):
        yield sys.executable, "this interpreter"
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield str(Path(folder) / f"python{version}"), "PATH"
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local" / "share" / "uv" / "python")
    folders = [
        (pyenv / "versions", f"{version}.*/bin/python", "pyenv"),
        (uv, f"cpython-{version}.*/bin/python{version}", "uv"),
    ]
    for root in (os.environ.get("CONDA_PREFIX"), home / "miniconda3", home / "miniforge3", home / "anaconda3"):
        if root:
            folders += [(Path(root), f"{below}bin/python{version}", "conda") for below in ("", "envs/*/")]
    for place, pattern, found_by in folders:
        yield from ((str(path), found_by) for path in _sort_newest_first(place, pattern))


def _sort_newest_first(folder: Path, pattern: str) -> list[Path]:
    def numbers(path: Path) -> list[int]:
        return list(map(int, re.findall(r"\d+", str(path.relative_to(folder)))))

    return sorted(folder.glob(pattern), key=numbers, reverse=True)


_MISSING = re.compile(r"No module named '(\w+)'")
"""A name without dots: for a package that lacks a part, Python writes ``torch.parts``."""
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
"""Packages whose import name differs from the name on the index."""
_SAME_NAMES = frozenset((
    "accelerate", "datasets", "diffusers", "einops", "evaluate", "fastapi", "h5py", "huggingface_hub", "jax",
    "jinja2", "librosa", "lightning", "loguru", "matplotlib", "networkx", "nltk", "numpy", "omegaconf", "onnx",
    "onnxruntime", "openai", "pandas", "peft", "plotly", "psutil", "pyarrow", "pycocotools", "pydantic", "pytest",
    "requests", "rich", "safetensors", "scipy", "seaborn", "sentencepiece", "soundfile", "sympy", "tabulate",
    "tensorflow", "tiktoken", "timm", "tokenizers", "torch", "torchaudio", "torchmetrics", "torchvision", "tqdm",
    "transformers", "ultralytics", "wandb",
))  # fmt: skip
"""Packages that model scripts use often. Any other name may be a folder of the user's repository, and the index may
have a stranger's package under it."""


def find_missing_module(error: str, message: str) -> str:
    """Return the module whose absence ended a script; empty when it ended for another reason."""
    found = _MISSING.search(message) if error in ("ModuleNotFoundError", "ImportError") else None
    return found[1] if found else ""


def format_install_command(interpreter: Interpreter, *packages: str) -> str:
    """Return the command that adds packages to the environment of an interpreter that has ttnn."""
    release = interpreter.ttnn_version or PINNED_TTNN
    if Path(interpreter.path) == locate_managed_python(release):
        of_release = "" if release == PINNED_TTNN else f" --ttnn {release}"
        return f"ttmem device install{of_release} --with {','.join(packages)}"
    return f"{shlex.quote(interpreter.path)} -m pip install {' '.join(packages)}"


def suggest_install(module: str, interpreter: Interpreter, script: Path) -> str:
    """Return the command that makes a module importable: a folder for PYTHONPATH where it is above the script or in the
    working folder, a package to install where its name is known, else both."""
    run = f"ttmem run {shlex.quote(str(script))}"
    for folder in (*script.resolve().parents, Path.cwd()):
        if (folder / module).is_dir() or (folder / f"{module}.py").is_file():
            return f"PYTHONPATH={shlex.quote(str(folder))} {run}"
    install = format_install_command(interpreter, _NAMES.get(module, module))
    if module in _NAMES or module in _SAME_NAMES:
        return install
    return f"if '{module}' is a folder of your repository: PYTHONPATH=FOLDER {run}; if it is a package: {install}"
