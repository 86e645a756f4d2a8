# SPDX-License-Identifier: Apache-2.0
"""Inputs of a transformers model, from its forward function's parameters and its configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from .job import REFUSED, TraceJob, TracerError

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
