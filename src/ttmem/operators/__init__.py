# SPDX-License-Identifier: Apache-2.0
"""What models are made of: cases, and the catalogue that says how ttnn runs them."""

from ttmem.operators.case import Case, CaseTensor, ModelUse, case_from_json, merge_cases
from ttmem.operators.case_files import cases_text, read_cases, write_cases

__all__ = [
    "Case",
    "CaseTensor",
    "ModelUse",
    "case_from_json",
    "cases_text",
    "merge_cases",
    "read_cases",
    "write_cases",
]
