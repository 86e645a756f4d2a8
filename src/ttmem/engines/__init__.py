# SPDX-License-Identifier: Apache-2.0
"""Engines answer what a board would do: the real ttnn on a mock board or a card, in a process of its own."""
