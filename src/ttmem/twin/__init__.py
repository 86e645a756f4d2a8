# SPDX-License-Identifier: Apache-2.0
"""The twin: tensor layouts, the allocator and L1 programs of ttnn, modelled to the byte."""
