# SPDX-License-Identifier: Apache-2.0
"""Knowledge about failure texts: data (TOML), and the code that reads it."""
