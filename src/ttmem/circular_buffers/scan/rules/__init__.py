# SPDX-License-Identifier: Apache-2.0
"""What host and kernel code must keep to, and what breaks it."""
