# SPDX-License-Identifier: Apache-2.0
"""Hostile inputs, made by the thousand, and the command line measured on each: ``make fuzz N=...`` (docs/fuzzing.md)."""
