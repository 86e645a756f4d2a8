# SPDX-License-Identifier: Apache-2.0
"""A run with changes: the answers of ``ttmem whatif``."""
