# SPDX-License-Identifier: Apache-2.0
"""Scripts that run on the mock."""

from support.captured_scripts import capture

__all__ = ["capture"]
