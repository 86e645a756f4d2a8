# SPDX-License-Identifier: Apache-2.0
"""What is known about failure texts: data (TOML), and what reads it."""
