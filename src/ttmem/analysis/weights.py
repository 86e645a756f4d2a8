# SPDX-License-Identifier: Apache-2.0
"""Weights of the model, and the device memory that they take."""

from collections import Counter
from dataclasses import dataclass

from ttmem.profile.model import GraphArgument, Profile

WEIGHT_KINDS = ("parameter", "constant")


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter or constant, counted once over all graphs that take it; logical bytes on one chip."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    constant: bool
    where: str
    """``device``; ``host``: every graph feeds it to const-eval only; ``unknown``: no dump tells."""
    graphs: tuple[str, ...]

    @property
    def kind(self) -> str:
        return "constant" if self.constant else "parameter"


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights, largest first; logical bytes on one chip, except ``device_bytes``: allocated bytes of its memory.

    The sums are None where nothing in the source tells what a weight is: unknown is not nothing.
    """

    count: int
    bytes: int | None
    constants: int
    device_bytes: int | None
    host_only_bytes: int | None
    unknown_bytes: int | None
    entries: tuple[Weight, ...]


def weights(profile: Profile) -> Weights:
    """Each weight once: prefill and decode graphs share parameters, and one copy is on the device."""
    by_identity: dict[tuple[str, tuple[int, ...], str], list[GraphArgument]] = {}
    for argument in profile.arguments:
        if argument.kind in WEIGHT_KINDS:
            by_identity.setdefault((argument.name, argument.shape, argument.dtype), []).append(argument)
    entries = sorted(
        (_merge(same) for same in by_identity.values()),
        key=lambda weight: (-weight.bytes, weight.name, weight.shape, weight.dtype),
    )
    bytes_in: Counter[str] = Counter()
    for weight in entries:
        same = by_identity[weight.name, weight.shape, weight.dtype]
        bytes_in[weight.where] += _allocated_bytes(same) if weight.where == "device" else weight.bytes
    is_told = bool(profile.arguments)
    return Weights(
        count=len(entries),
        bytes=sum(weight.bytes for weight in entries) if is_told else None,
        constants=sum(weight.constant for weight in entries),
        device_bytes=bytes_in["device"] if is_told else None,
        host_only_bytes=bytes_in["host"] if is_told else None,
        unknown_bytes=bytes_in["unknown"] if is_told else None,
        entries=tuple(entries),
    )


def _merge(same: list[GraphArgument]) -> Weight:
    places = {argument.on_device for argument in same}
    return Weight(
        name=same[0].name,
        shape=same[0].shape,
        dtype=same[0].dtype,
        bytes=max(argument.bytes for argument in same),
        constant=all(argument.kind == "constant" for argument in same),
        where="device" if True in places else "unknown" if None in places else "host",
        graphs=tuple(dict.fromkeys(argument.graph for argument in same)),
    )


def _allocated_bytes(same: list[GraphArgument]) -> int:
    """Return allocated device bytes, padding included; logical where the source has only the type."""
    return max(one.bytes if one.device_bytes is None else one.device_bytes for one in same)
