# SPDX-License-Identifier: Apache-2.0
"""Search of any text for failures."""
