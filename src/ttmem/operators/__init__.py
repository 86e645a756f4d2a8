# SPDX-License-Identifier: Apache-2.0
"""Operators of models: cases, the catalogue that maps operators to ttnn, tracing, sweeps."""
