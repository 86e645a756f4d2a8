# SPDX-License-Identifier: Apache-2.0
"""ttnn-visualizer report folders and databases."""
