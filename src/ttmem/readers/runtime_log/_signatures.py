# SPDX-License-Identifier: Apache-2.0
"""The operand and result types of operations: each distinct text of them is read once."""

from ttmem.profile.tensor_type import TensorType
from ttmem.readers.mlir._operation import split_signature
from ttmem.readers.mlir._types import parse_tensor_type
from ttmem.readers.runtime_log._tokens import Tables

_KNOWN_TEXTS = 50_000


class Signatures:
    """Numbers of signatures in a log's tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._numbers: dict[bytes, int] = {}
        self._type_numbers: dict[bytes, int] = {}

    def number(self, types: bytes) -> int:
        """The number of the signature that an operation's types make."""
        known = self._numbers.get(types)
        if known is not None:
            return known
        if len(self._numbers) > _KNOWN_TEXTS:
            self._numbers.clear()
        operands, results = split_signature(types)
        self._tables.signatures.append((tuple(map(self._type, operands)), tuple(map(self._type, results))))
        self._numbers[types] = len(self._tables.signatures) - 1
        return len(self._tables.signatures) - 1

    def _type(self, text: bytes) -> int:
        known = self._type_numbers.get(text)
        if known is not None:
            return known
        if len(self._type_numbers) > _KNOWN_TEXTS:
            self._type_numbers.clear()
        parsed: TensorType | None = parse_tensor_type(text)
        types = self._tables.types
        self._type_numbers[text] = number = -1 if parsed is None else types.setdefault(parsed, len(types))
        return number
