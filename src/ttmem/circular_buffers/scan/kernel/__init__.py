# SPDX-License-Identifier: Apache-2.0
"""Kernel code: who pushes, waits and pops which buffer."""
