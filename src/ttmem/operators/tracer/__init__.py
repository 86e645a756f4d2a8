# SPDX-License-Identifier: Apache-2.0
"""Runs in the interpreter that has torch, started as a file (``start.py``): it needs torch and nothing else of ours.

Models are run with fake tensors: shapes and types without data, so a model of two billion parameters at any size takes
a second and a hundred megabytes.
"""
