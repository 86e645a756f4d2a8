# SPDX-License-Identifier: Apache-2.0
"""Targets of a trace: a function in a file, or a configuration of transformers with its inputs."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .job import MISSING_PACKAGE, REFUSED, TraceJob, TracerError, sentence
from .pytrees import map_tensors

DEFAULT_SIZE = (224, 224)
_INPUT_NAMES = ("get_inputs", "load_inputs", "example_inputs")
"""Looked for in the model's own file when no inputs are named."""


@dataclass(frozen=True)
class Model:
    """A model's constructor and inputs."""

    load: Callable[[], Any]
    inputs: Callable[[Any], Any]
    """From the built model."""
    size: str
    remarks: tuple[str, ...] = ()


def find(job: TraceJob) -> Model:
    """The model that a target names."""
    return _load_transformers(job) if job.target.startswith("hf:") else _load_file(job)


# --- file.py::function --------------------------------------------------------------------------------------------


def _load_file(job: TraceJob) -> Model:
    load = _function(job.target)
    make = _function(job.inputs) if job.inputs else _neighbour(load)
    if make is not None:
        _check_size(load, make, job)
        return Model(lambda: _call(load, job), lambda _: _make_inputs(make, job), job.size_text)
    height, width = job.size or DEFAULT_SIZE
    shape = (job.batch, 3, height, width)
    return Model(
        lambda: _call(load, job),
        lambda _: torch.empty(shape, device="meta"),
        f"{height}x{width}",
        (f"no --inputs: one image {list(shape)}",),
    )


_SIZES = ("size", "image_size", "height", "width")
_LENGTHS = ("seq", "seq_len", "sequence", "sequence_length")


def _check_size(load: Any, make: Any, job: TraceJob) -> None:
    """A size without a parameter would change nothing, and the answer would look as if it had."""
    taken = [_parameters(function) for function in (load, make)]
    if job.size and all(known is not None and known.isdisjoint(_SIZES) for known in taken):
        named = f"{getattr(load, '__name__', 'the model')} and {getattr(make, '__name__', 'its inputs')}"
        raise TracerError(f"--size would change nothing: neither of {named} has a parameter {', '.join(_SIZES)}")
    if job.sequence != TraceJob("").sequence and all(
        known is not None and known.isdisjoint(_LENGTHS) for known in taken
    ):
        raise TracerError(f"--seq would change nothing: neither has a parameter {', '.join(_LENGTHS)}")


def check_built(model: Any, job: TraceJob) -> None:
    """Refuse any other return value of a function."""
    if not isinstance(model, torch.nn.Module):
        raise TracerError(f"{job.target.partition('::')[2]} returns a {type(model).__name__}, not a torch.nn.Module")


def _make_inputs(make: Any, job: TraceJob) -> Any:
    """Return the user function's inputs; without a batch parameter, a single input is repeated."""
    known = _parameters(make)
    given = make(**_list_functions(make, job))
    if job.batch == 1 or known is None or not known.isdisjoint(("batch", "batch_size")):
        return given

    def repeat_batch(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.dim():
            return leaf
        return leaf.expand(job.batch, *leaf.shape[1:]) if leaf.shape[0] == 1 else torch.cat([leaf] * job.batch)

    return map_tensors(given, repeat_batch)


def _neighbour(load: Any) -> Any:
    module = sys.modules.get(load.__module__)
    return next((getattr(module, name) for name in _INPUT_NAMES if callable(getattr(module, name, None))), None)


def _function(target: str) -> Any:
    place, _, name = target.partition("::")
    module = _module(Path(place).resolve())
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
        raise TracerError(f"{place} has no function '{name}'; it has {', '.join(known) or 'none'}")
    return found


def _module(path: Path) -> Any:
    name = f"ttmem_user_{path.stem}_{abs(hash(str(path)))}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TracerError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path[:] = [str(path.parent), *(place for place in sys.path if place != str(path.parent))]
    # It stays there, as if the file were run as a script: functions import too.
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        del sys.modules[name]
        raise TracerError(
            f"{path.name} imports '{error.name}', which is not installed here", MISSING_PACKAGE
        ) from error
    except BaseException as error:
        del sys.modules[name]
        raise TracerError(f"{path.name} cannot be loaded: {sentence(error)}") from error
    return module


def _call(load: Any, job: TraceJob) -> Any:
    """The user's function gets what it has parameters for; --set must be wanted."""
    settings = job.settings
    known = _parameters(load)
    if known is not None and (unknown := [name for name in settings if name not in known]):
        raise TracerError(f"{load.__name__} has no parameter '{unknown[0]}' (--set)")
    return load(**_list_functions(load, job), **settings)


def _list_functions(function: Any, job: TraceJob) -> dict[str, Any]:
    known = _parameters(function) or set()
    offers: dict[str, Any] = {"batch": job.batch, "batch_size": job.batch}
    if job.size:
        offers |= {"size": job.size, "image_size": job.size, "height": job.size[0], "width": job.size[1]}
    if job.sequence != TraceJob("").sequence or known & set(_LENGTHS) & _required_arguments(function):
        offers |= dict.fromkeys(_LENGTHS, job.sequence)
    return {name: value for name, value in offers.items() if name in known and name not in job.settings}


def _required_arguments(function: Any) -> set[str]:
    """Parameters without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {parameter.name for parameter in parameters if parameter.default is parameter.empty}


def _parameters(function: Any) -> set[str] | None:
    """None when it takes any keyword."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters}


# --- hf:Config ----------------------------------------------------------------------------------------------------


def describe(job: TraceJob) -> dict[str, Any]:
    """A configuration as transformers would write it; sizes that follow from others are worked out anew."""
    _, found, is_model = _transformers_class(job)
    config_class = found.config_class if is_model else found
    _check_settings(config_class(), job)
    described: dict[str, Any] = config_class(**job.settings).to_dict()
    return described


def _load_transformers(job: TraceJob) -> Model:
    transformers, found, is_model = _transformers_class(job)
    config = (found.config_class if is_model else found)()
    _configure(config, job)
    size = _image_size(config, job)
    if job.eager_attention:
        config._attn_implementation = "eager"

    def load() -> Any:
        if is_model:
            return found(config)
        if type(config) not in transformers.MODEL_MAPPING:
            stem = type(config).__name__.removesuffix("Config")
            known = [word for word in dir(transformers) if word.startswith(f"{stem}For") or word == f"{stem}Model"]
            if len(known) == 1:
                return getattr(transformers, known[0])(config)
            named = f"name one: {', '.join(f'hf:{word}' for word in known)}" if known else "it has none here"
            raise TracerError(f"{type(config).__name__} does not say which model is meant; {named}")
        return transformers.AutoModel.from_config(config)

    return Model(load, lambda model: make_inputs(model, config, size, job), _size_text(config, size, job))


def _transformers_class(job: TraceJob) -> tuple[Any, Any, bool]:
    """The package, the class that the target names, and whether that is a model's."""
    try:
        import transformers
    except ImportError as error:
        raise TracerError("transformers is not installed: pip install transformers", MISSING_PACKAGE) from error
    name = job.target.removeprefix("hf:")
    found = getattr(transformers, name, None)
    if found is None:
        raise TracerError(f"transformers {transformers.__version__} has no '{name}'{_guess(name, transformers)}")
    is_model = inspect.isclass(found) and getattr(found, "config_class", None) is not None
    is_config = inspect.isclass(found) and isinstance(getattr(found, "model_type", None), str) and not is_model
    if not (is_model or is_config) or (is_config and not found.model_type):
        raise TracerError(f"transformers.{name} is neither a config nor a model class")
    return transformers, found, is_model


def _configure(config: Any, job: TraceJob) -> None:
    if hasattr(config, "use_pretrained_backbone"):
        config.use_pretrained_backbone = False  # weights are not needed and not fetched
    _check_settings(config, job)
    for key, value in job.settings.items():
        setattr(config, key, value)


def _check_settings(config: Any, job: TraceJob) -> None:
    for key in job.settings:
        if not hasattr(config, key):
            raise TracerError(f"{type(config).__name__} has no setting '{key}' (--set)")


def _image_size(config: Any, job: TraceJob) -> tuple[int, int]:
    """The size to trace at."""
    own = own_image_size(config)
    if job.size is None:
        if isinstance(own, int):
            return own, own
        return (int(own[0]), int(own[1])) if isinstance(own, (list, tuple)) and len(own) == 2 else DEFAULT_SIZE
    if "image_size" not in job.settings:
        set_image_size(config, job.size)
    return job.size


def _size_text(config: Any, size: tuple[int, int], job: TraceJob) -> str:
    if hasattr(config, "vocab_size") and not hasattr(config, "num_channels"):
        return str(job.sequence)
    return f"{size[0]}x{size[1]}"


def _guess(name: str, transformers: Any) -> str:
    import difflib

    names = [word for word in dir(transformers) if word.endswith("Config")]
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean hf:{close[0]}?" if close else ""


_SAMPLES = 16000
"""One second of sound, where no --seq says otherwise: the first layers of such models make one token of 400."""
_DEFAULT_SEQUENCE = TraceJob("").sequence


def make_inputs(model: Any, config: Any, size: tuple[int, int], job: TraceJob) -> dict[str, Any]:
    """Tensors by name, without data where that is allowed."""
    asked = _Asked(config, size, job)
    name = str(getattr(model, "main_input_name", "pixel_values"))
    if name not in _MAKERS:
        raise TracerError(f"the model wants '{name}'; write a file with load_model and get_inputs for it", REFUSED)
    given = {name: _MAKERS[name](asked)}
    taken = inspect.signature(model.forward).parameters
    is_both = _part(config, "text_config") is not None and _part(config, "vision_config") is not None
    if is_both or {"vocab_size", "image_size", "num_channels"} <= set(vars(config)):
        given |= {other: _MAKERS[other](asked) for other in ("input_ids", "pixel_values") if other in taken}
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in taken:
        given["decoder_input_ids"] = asked.tokens(_read_setting(config, "max_target_positions"))
    if job.size and "pixel_values" not in given:
        raise TracerError(f"--size would change nothing: the model takes {', '.join(given)}")
    if job.sequence != _DEFAULT_SEQUENCE and given.keys() <= {"pixel_values", "input_features"}:
        raise TracerError(f"--seq would change nothing: the model takes {', '.join(given)}")
    return given


def set_image_size(config: Any, size: tuple[int, int]) -> None:
    """Models that fix it in their configuration must get it before they are built."""
    for part in (config, _part(config, "vision_config")):
        own = getattr(part, "image_size", None)
        if own is not None:
            part.image_size = size[0] if isinstance(own, int) and size[0] == size[1] else list(size)


def own_image_size(config: Any) -> Any:
    """The configuration's own, of the part for images where it has parts."""
    return _read_setting(config, "image_size")


class _Asked:
    """The sizes of the inputs."""

    def __init__(self, config: Any, size: tuple[int, int], job: TraceJob) -> None:
        self.config, self.size, self.job = config, size, job

    def tokens(self, most: Any = None) -> Any:
        """Return the requested number; a default is at most the model's number of positions."""
        most = most or _read_setting(self.config, "max_position_embeddings")
        length = self.job.sequence
        if length == _DEFAULT_SEQUENCE and isinstance(most, int) and 0 < most < length:
            length = most
        return torch.zeros((self.job.batch, length), dtype=torch.long)

    def image(self) -> Any:
        channels = _read_setting(self.config, "num_channels") or 3
        frames = getattr(self.config, "num_frames", None)
        before = (self.job.batch, frames) if isinstance(frames, int) else (self.job.batch,)
        return torch.empty((*before, channels, *self.size), device="meta")

    def features(self) -> Any:
        """A spectrogram: bands by twice the positions, because the first layers halve it."""
        bands, places = (getattr(self.config, name, None) for name in ("num_mel_bins", "max_source_positions"))
        if not isinstance(bands, int) or not isinstance(places, int):
            raise TracerError("how many features it takes is not in its configuration; name --inputs", REFUSED)
        return torch.empty((self.job.batch, bands, 2 * places), device="meta")

    def sound(self) -> Any:
        bands, length = (getattr(self.config, name, None) for name in ("num_mel_bins", "max_length"))
        if isinstance(bands, int) and isinstance(length, int) and hasattr(self.config, "patch_size"):
            return torch.empty((self.job.batch, length, bands), device="meta")
        samples = _SAMPLES if self.job.sequence == _DEFAULT_SEQUENCE else self.job.sequence
        channels = getattr(self.config, "audio_channels", None)
        before = (self.job.batch, channels) if isinstance(channels, int) else (self.job.batch,)
        return torch.empty((*before, samples), device="meta")


_MAKERS: dict[str, Callable[[_Asked], Any]] = {
    "pixel_values": _Asked.image,
    "input_ids": _Asked.tokens,
    "input_features": _Asked.features,
    "input_values": _Asked.sound,
}


def _part(config: Any, name: str) -> Any:
    found = getattr(config, name, None)
    return None if found is None or isinstance(found, dict) else found


def _read_setting(config: Any, name: str) -> Any:
    """Return the value of the configuration, or of the part that has it."""
    for part in (config, _part(config, "vision_config"), _part(config, "text_config")):
        if getattr(part, name, None) is not None:
            return getattr(part, name)
    return None
