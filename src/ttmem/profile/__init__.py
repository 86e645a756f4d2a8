# SPDX-License-Identifier: Apache-2.0
"""The one data model that every reader and engine fills and every question reads."""

from ttmem.profile.captured import L1_PARTS, BufferTable, ProgramsL1
from ttmem.profile.model import (
    AFTER_SUBMIT,
    BEFORE_OPERATION,
    BEFORE_SUBMIT,
    BLOCK_NAMES,
    MEMORIES,
    SNAPSHOT,
    VIEW_ALLOCATED,
    VIEW_BANKS,
    VIEW_FREE,
    VIEW_LARGEST_FREE,
    VIEW_TOTAL,
    WITHIN_OPERATION,
    Argument,
    CacheLookup,
    FailureText,
    Profile,
    Program,
    Source,
    Timeline,
)
from ttmem.profile.operation_forms import OperationForm, OperationForms
from ttmem.profile.tensor_type import HOST, TensorType

__all__ = [
    "AFTER_SUBMIT",
    "BEFORE_OPERATION",
    "BEFORE_SUBMIT",
    "BLOCK_NAMES",
    "HOST",
    "L1_PARTS",
    "MEMORIES",
    "SNAPSHOT",
    "VIEW_ALLOCATED",
    "VIEW_BANKS",
    "VIEW_FREE",
    "VIEW_LARGEST_FREE",
    "VIEW_TOTAL",
    "WITHIN_OPERATION",
    "Argument",
    "BufferTable",
    "CacheLookup",
    "FailureText",
    "OperationForm",
    "OperationForms",
    "Profile",
    "Program",
    "ProgramsL1",
    "Source",
    "TensorType",
    "Timeline",
]
