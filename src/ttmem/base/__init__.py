# SPDX-License-Identifier: Apache-2.0
"""Errors, text safety, atomic files, limits, child processes, expressions, TOML: what every room may use."""
