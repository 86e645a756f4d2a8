# SPDX-License-Identifier: Apache-2.0
"""Budgets: the verdicts of ``ttmem check``."""
