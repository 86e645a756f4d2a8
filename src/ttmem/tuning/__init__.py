# SPDX-License-Identifier: Apache-2.0
"""From what happened to what to change: edits of a captured or predicted run, replayed, searched, proven."""
