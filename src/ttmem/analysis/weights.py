# SPDX-License-Identifier: Apache-2.0
"""Which weights the model has, and which of them really cost device memory."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.profile import Argument, Profile

_WEIGHT_KINDS = ("parameter", "constant")


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter or constant, however many graphs take it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    """Logical bytes on one chip."""
    kind: str
    """``parameter`` or ``constant``."""
    on_device: bool | None
    """False: every graph feeds it to const-eval only, so it stays on the host. None: no dump tells."""
    graphs: tuple[str, ...]

    @property
    def where(self) -> str:
        """``device``, ``host`` or ``unknown``."""
        return {True: "device", False: "host", None: "unknown"}[self.on_device]


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights, largest first."""

    entries: tuple[Weight, ...]

    @property
    def count(self) -> int:
        return len(self.entries)

    @property
    def bytes(self) -> int:
        """Logical bytes of all of them on one chip, wherever they lie."""
        return sum(weight.bytes for weight in self.entries)

    @property
    def constants(self) -> int:
        return sum(weight.kind == "constant" for weight in self.entries)

    def bytes_in(self, where: str) -> int:
        """Logical bytes of those on the ``device``, only on the ``host``, or ``unknown``."""
        return sum(weight.bytes for weight in self.entries if weight.where == where)


def weights(profile: Profile) -> Weights:
    """Each weight once: prefill and decode graphs share parameters, and one copy lies on the device."""
    by_identity: dict[tuple[str, tuple[int, ...], str], list[Argument]] = {}
    for argument in profile.arguments:
        if argument.kind in _WEIGHT_KINDS:
            by_identity.setdefault((argument.name, argument.shape, argument.dtype), []).append(argument)
    entries = [_merged(same) for same in by_identity.values()]
    return Weights(tuple(sorted(entries, key=lambda weight: (-weight.bytes, weight.name, weight.shape, weight.dtype))))


def _merged(same: list[Argument]) -> Weight:
    places = {argument.on_device for argument in same}
    on_device = True if True in places else None if None in places else False
    return Weight(
        name=same[0].name,
        shape=same[0].shape,
        dtype=same[0].dtype,
        bytes=max(argument.bytes for argument in same),
        kind="parameter" if any(argument.kind == "parameter" for argument in same) else "constant",
        on_device=on_device,
        graphs=tuple(dict.fromkeys(argument.graph for argument in same)),
    )
