# SPDX-License-Identifier: Apache-2.0
"""Runtime logs of tt-mlir and TT-XLA."""
