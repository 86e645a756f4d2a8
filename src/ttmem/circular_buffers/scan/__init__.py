# SPDX-License-Identifier: Apache-2.0
"""Circular and dataflow buffers in C++: what host code declares, whether it fits, and which rules kernels break."""
