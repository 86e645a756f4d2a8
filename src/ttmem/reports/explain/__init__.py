# SPDX-License-Identifier: Apache-2.0
"""Failures explained."""
