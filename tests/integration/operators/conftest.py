# SPDX-License-Identifier: Apache-2.0
"""A mock n150, and the command line in this process."""

from support.operator_fixtures import engine, run

__all__ = ["engine", "run"]
