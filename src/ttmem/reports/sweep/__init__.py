# SPDX-License-Identifier: Apache-2.0
"""Results of sweeps, limits, and the files that earlier tools wrote."""
