# SPDX-License-Identifier: Apache-2.0
"""Operators of models and their mapping to ttnn."""
