# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a ttnn graph capture say: the one place that knows how releases spell it.

The standard library alone, and relative imports: the worker loads this folder from its files, in an interpreter that
need not have ttmem (``engines/worker/start.py``).
"""
