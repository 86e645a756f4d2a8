# SPDX-License-Identifier: Apache-2.0
"""C++ without a compiler: syntax, names, expressions and their arithmetic, functions followed step by step."""
