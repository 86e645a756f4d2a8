# SPDX-License-Identifier: Apache-2.0
"""Hostile inputs by the thousand, and the command line measured on each: ``make fuzz N=...``."""
