# SPDX-License-Identifier: Apache-2.0
"""Every verb as one call in Python."""
