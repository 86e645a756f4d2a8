# SPDX-License-Identifier: Apache-2.0
"""Two profiles compared."""
