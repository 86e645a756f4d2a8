# SPDX-License-Identifier: Apache-2.0
"""What models are made of: cases, the catalogue that maps operators to ttnn, tracing, sweeps."""
