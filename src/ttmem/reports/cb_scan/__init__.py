# SPDX-License-Identifier: Apache-2.0
"""Declarations and findings in C++ code."""
