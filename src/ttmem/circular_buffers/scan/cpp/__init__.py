# SPDX-License-Identifier: Apache-2.0
"""C++ as text and syntax: tokens, names, expressions, and the arithmetic that folds them."""
