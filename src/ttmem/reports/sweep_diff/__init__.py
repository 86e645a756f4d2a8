# SPDX-License-Identifier: Apache-2.0
"""Two sweeps of the same cases, compared."""
