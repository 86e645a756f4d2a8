# SPDX-License-Identifier: Apache-2.0
"""The command line in this process, and pytest for an interpreter that has none."""

from support.operator_fixtures import linked_pytest, run

__all__ = ["linked_pytest", "run"]
