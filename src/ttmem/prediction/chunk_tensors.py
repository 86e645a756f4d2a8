# SPDX-License-Identifier: Apache-2.0
"""What chunks need of tensors: cut, join, and whether pieces would fit. Here for those of torch on the host."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.engines.worker.limits import allowed_bytes
from ttmem.prediction.chunk_rules import Cut

Pieces = Sequence[tuple[int, int]]


class Tensors(ABC):
    """One library's tensors."""

    @staticmethod
    @abstractmethod
    def is_tensor(value: Any) -> bool:
        """Whether a value is one of them."""

    @abstractmethod
    def limit(self, text: str | int | None) -> None:
        """How much may be in use."""

    @abstractmethod
    def part(self, tensor: Any, dimension: int, begin: int, end: int) -> Any:
        """A piece along one dimension."""

    @abstractmethod
    def joined(self, parts: list[Any], dimension: int) -> Any:
        """Pieces put together again."""

    @abstractmethod
    def would_fit(
        self, name: str, arguments: Any, options: Any, given: Sequence[Any], cut: Cut, pieces: Pieces
    ) -> bool:
        """Whether nothing speaks against the call in these pieces."""

    def refusal(self, name: str, arguments: Any, options: Mapping[str, Any]) -> str:
        """Why the call cannot fit as it is; empty when it may."""
        return ""

    def given(self, tensor: Any) -> Any:
        """What the function is given of a tensor that is not cut."""
        return tensor

    def taken(self, results: Any) -> Any:
        """What is kept of the function's results."""
        return results

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """A call is over."""

    def is_tiled(self, tensor: Any, dimension: int) -> bool:
        """Whether pieces along a dimension should be whole tiles."""
        return False

    def memory_config(self, memory: str) -> Any:
        """Interleaved in a memory."""
        raise BadInputError(f"'{memory}' is a memory of a device: these tensors have none")

    def cast(self, tensor: Any, dtype: str) -> Any:
        """As another data type."""
        raise BadInputError(f"'{dtype}' is a data type of a device: these tensors have none")

    def on_host(self, values: Any) -> Any:
        """Arguments as a function of the host takes them."""
        return values

    def free(self, tensors: Any) -> None:  # noqa: B027 - the host gives them back by itself
        """Give tensors back at once."""

    @contextmanager
    def failures_as(self, error_type: type[Exception]) -> Iterator[None]:
        """Turn the library's errors about memory into another one."""
        yield


class TorchTensors(Tensors):
    """On the host: a piece counts what its tensors and its result have of bytes."""

    def __init__(self, first: Any) -> None:
        self._torch: Any = sys.modules["torch"]
        self._limit: int | None = None

    @staticmethod
    def is_tensor(value: Any) -> bool:
        return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)

    def limit(self, text: str | int | None) -> None:
        if isinstance(text, str):
            text = limit_bytes(text, None)
        self._limit = text

    def part(self, tensor: Any, dimension: int, begin: int, end: int) -> Any:
        return tensor.narrow(dimension, begin, end - begin)

    def joined(self, parts: list[Any], dimension: int) -> Any:
        return self._torch.cat(parts, dim=dimension)

    def refusal(self, name: str, arguments: Any, options: Mapping[str, Any]) -> str:
        given = [value for value in flat((arguments, options)) if self.is_tensor(value)]
        needed = 2 * sum(one.numel() * one.element_size() for one in given)
        return f"about {needed} B, over {self._limit} B" if self._limit is not None and needed > self._limit else ""

    def would_fit(
        self, name: str, arguments: Any, options: Any, given: Sequence[Any], cut: Cut, pieces: Pieces
    ) -> bool:
        if self._limit is None:
            return True
        share = (pieces[0][1] - pieces[0][0]) / cut.size
        cuts = dict(cut.tensors)
        needed: float = sum(
            one.numel() * one.element_size() * (share if place in cuts else 1.0) for place, one in enumerate(given)
        )
        return 2 * needed <= self._limit


def flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from flat(item)
    else:
        yield value


def limit_bytes(text: str | int, bank_bytes: int | None) -> int:
    if isinstance(text, int):
        return text
    try:
        if bank_bytes is None and "%" in text:
            raise ValueError(f"'{text}' of what? Tensors of the host have no banks")
        return allowed_bytes(text, bank_bytes or 0)
    except ValueError as error:
        raise BadInputError(f"limit: {error}") from None
