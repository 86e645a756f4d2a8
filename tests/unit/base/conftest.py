# SPDX-License-Identifier: Apache-2.0
"""A store and a working folder for each test."""

from support.in_process import home

__all__ = ["home"]
