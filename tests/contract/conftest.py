# SPDX-License-Identifier: Apache-2.0
"""Verbs in this process, with a store and a working folder of their own."""

from support.captured_scripts import capture
from support.in_process import home, run
from support.run_cb import run_cb

__all__ = ["capture", "home", "run", "run_cb"]
