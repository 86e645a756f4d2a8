# SPDX-License-Identifier: Apache-2.0
"""What runs in the interpreter that has ttnn: the standard library and ttnn alone, on CPython 3.10 and 3.12.

That interpreter need not have ttmem, so this package is started from its files (``start.py``) under the name
``ttmem_worker`` and speaks JSON lines. It gathers evidence; what the evidence means is worked out on the other side.
"""
