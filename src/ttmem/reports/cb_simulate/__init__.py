# SPDX-License-Identifier: Apache-2.0
"""Depths of circular buffers, what they cost in L1 and in time."""
