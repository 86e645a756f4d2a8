# SPDX-License-Identifier: Apache-2.0
"""``ttmem sweep``: Find which operators and shapes fail on which board and memory, and their limits."""

from ttmem.commands._group import VerbGroup

_HELP = """Find which operators and shapes fail on which board and memory, the largest that pass, and what to change.

Every case runs alone on an empty device: the residents of a whole model leave less room.
"""
_EXAMPLES = """
ttmem sweep run cases.jsonl --board n150 --memory DRAM,L1 -o results
ttmem sweep report results -o reports
ttmem sweep limits --op silu --board n150
"""

command = VerbGroup(__name__, first=("run", "report", "limits"), name="sweep", help=_HELP, epilog=_EXAMPLES)
