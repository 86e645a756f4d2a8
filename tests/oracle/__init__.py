# SPDX-License-Identifier: Apache-2.0
"""The real ttnn on a mock board as the judge of the twin: both are engines, both are asked the same steps."""
