# SPDX-License-Identifier: Apache-2.0
"""What to change: the answers of ``ttmem tune``."""
