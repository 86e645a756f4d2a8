# SPDX-License-Identifier: Apache-2.0
"""Read a model's configuration from a ``config.json``, or from a class of transformers by name."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.base.text_files import read_bytes
from ttmem.base.text_safety import escape_half_pairs_in_json
from ttmem.operators.tracing import describe_config
from ttmem.prediction.language.dimensions import is_language_config
from ttmem.prediction.request import Request

PREFIX = "hf:"
_MOST_FILE_BYTES = 4 << 20


def is_config_file(target: str) -> bool:
    """Return whether a target is a ``config.json``, or the folder of a model with one."""
    path = Path(target)
    return (path.suffix == ".json" and path.is_file()) or (path / "config.json").is_file()


def wants_recipe(request: Request) -> bool:
    """Return whether a request needs a recipe. A bare ``hf:`` target is traced instead."""
    if is_config_file(request.target):
        return True
    asks = (request.phase, request.users, request.context, request.kv_cache, request.prefill_chunk, request.chips)
    if not request.target.startswith(PREFIX) or (request.recipe == "generic" and not any(asks)):
        return False
    return request.recipe != "generic" or is_language_config(read_config(request))


def read_config(request: Request) -> Mapping[str, Any]:
    """Read the configuration and apply ``--set``."""
    settings = json.dumps(dict(request.settings), sort_keys=True)
    if request.target.startswith(PREFIX):
        return _describe(request.target, settings, request.torch_python)
    return _read_file(Path(request.target), json.loads(settings))


def model_name(request: Request, config: Mapping[str, Any]) -> str:
    """Return a display name: the folder of a downloaded model says more than ``config``."""
    if request.target.startswith(PREFIX):
        return request.target.removeprefix(PREFIX)
    told = str(config.get("_name_or_path") or "").rstrip("/").rpartition("/")[2]
    path = Path(request.target).resolve()
    folder = path.parent.name if path.name == "config.json" else path.stem
    return told or folder or "model"


@lru_cache(maxsize=64)
def _describe(target: str, settings: str, torch_python: str | None) -> Mapping[str, Any]:
    """Describe a class of transformers; cached, because torch takes seconds to start."""
    return describe_config(target, json.loads(settings), python=torch_python)


def _read_file(path: Path, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    file = path / "config.json" if path.is_dir() else path
    content = read_bytes(file, most=_MOST_FILE_BYTES, what="a configuration")
    try:
        config = json.loads(escape_half_pairs_in_json(json.dumps(json.loads(content))))
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"is not JSON: {error}", where=str(file)) from error
    if not isinstance(config, dict):
        raise BadInputError("is not a configuration: no object", where=str(file))
    for key, value in settings.items():
        part = config["text_config"] if key not in config and key in (config.get("text_config") or {}) else config
        part[key] = value
    return config
