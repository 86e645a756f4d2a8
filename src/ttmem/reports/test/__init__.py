# SPDX-License-Identifier: Apache-2.0
"""The peak memory of every test of a suite."""
