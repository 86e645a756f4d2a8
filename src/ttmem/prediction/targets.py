# SPDX-License-Identifier: Apache-2.0
"""The kinds of TARGET; each builds a ``Stream`` for the request."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ttmem.base.errors import BadInputError
from ttmem.prediction.language.configuration import wants_recipe
from ttmem.prediction.request import Request
from ttmem.prediction.stream import Stream

HINT = (
    "TARGET is FILE.py::load_model, hf:ViTConfig, the config.json of a language model, a TTNN module (.mlir, or a log "
    "that holds one), or a ttnn script"
)


class TargetKind(NamedTuple):
    """A kind of target; the first that matches is used."""

    holds: Callable[[Request], bool]
    home: str
    """The module with ``build_stream(request)``, imported on demand."""


_OTHER_FILES = (".py", ".json", ".toml", ".yaml", ".yml", ".safetensors", ".bin", ".pt")


def is_module(request: Request) -> bool:
    """Return whether a target is a TTNN module or a log; the reader reports a file that is neither."""
    path = Path(request.target)
    if path.suffix == ".mlir":
        return True
    return "::" not in request.target and path.suffix not in _OTHER_FILES and path.is_file()


def _is_traced(request: Request) -> bool:
    return request.target.startswith("hf:") or "::" in request.target


KINDS: tuple[TargetKind, ...] = (
    TargetKind(is_module, "ttmem.prediction.compiled"),
    TargetKind(wants_recipe, "ttmem.prediction.language.stream"),
    TargetKind(_is_traced, "ttmem.prediction.lowering"),
)


def is_script(target: str) -> bool:
    """Return whether a target is a ttnn script, which runs instead of being predicted."""
    return target.endswith(".py") and "::" not in target


def build_stream(request: Request) -> Stream:
    for kind in KINDS:
        if kind.holds(request):
            made: Stream = import_module(kind.home).build_stream(request)
            return made
    missing = not request.target.startswith("hf:") and not Path(request.target.partition("::")[0]).exists()
    raise BadInputError("no such file" if missing else "no model, module or script", where=request.target, hint=HINT)
