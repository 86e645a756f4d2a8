# SPDX-License-Identifier: Apache-2.0
"""TTNN modules as text, in a file or a log."""
