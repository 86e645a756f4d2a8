# SPDX-License-Identifier: Apache-2.0
"""Host code: which circular buffers a program declares, and how large."""
