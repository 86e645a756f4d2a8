# SPDX-License-Identifier: Apache-2.0
"""Every verb as one call in Python: plain values in, a small result with ``to_json()`` out, ``TtmemError`` raised.

One file per call; ``ttmem`` exports them. The commands add options and print, nothing else.
"""
