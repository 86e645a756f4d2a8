# SPDX-License-Identifier: Apache-2.0
"""From any text to the failures that it tells of."""
