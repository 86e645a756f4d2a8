# SPDX-License-Identifier: Apache-2.0
"""What models are made of: cases, and the catalogue that says how ttnn runs them."""

from ttmem.operators.bound import CannotRunError
from ttmem.operators.case import Case, CaseTensor, ModelUse, case_from_json, merge_cases
from ttmem.operators.case_files import cases_text, read_cases, write_cases
from ttmem.operators.catalogue_entries import DEVICE, FREE, HOST, NONE, Operator, catalogue
from ttmem.operators.recipe import Recipe, recipe_of

__all__ = [
    "DEVICE",
    "FREE",
    "HOST",
    "NONE",
    "CannotRunError",
    "Case",
    "CaseTensor",
    "ModelUse",
    "Operator",
    "Recipe",
    "case_from_json",
    "cases_text",
    "catalogue",
    "merge_cases",
    "read_cases",
    "recipe_of",
    "write_cases",
]
