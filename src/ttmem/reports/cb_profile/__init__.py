# SPDX-License-Identifier: Apache-2.0
"""What a source says about circular buffers."""
