# SPDX-License-Identifier: Apache-2.0
"""The boards and their memories."""
