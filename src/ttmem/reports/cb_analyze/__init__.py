# SPDX-License-Identifier: Apache-2.0
"""All about circular buffers in one report."""
