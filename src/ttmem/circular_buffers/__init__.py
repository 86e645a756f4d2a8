# SPDX-License-Identifier: Apache-2.0
"""Circular buffers: how deep they should be, what they cost in L1 and what shallow ones cost in time."""
