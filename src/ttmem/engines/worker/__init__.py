# SPDX-License-Identifier: Apache-2.0
"""The worker: runs in the interpreter that has ttnn, with the standard library alone, on CPython 3.10 and 3.12.

That interpreter need not have ttmem, so this package is started from its files (``start.py``) under the name
``ttmem_worker`` and speaks JSON lines. It gathers evidence; ttmem interprets it.
"""
