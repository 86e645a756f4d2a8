# SPDX-License-Identifier: Apache-2.0
"""``ttmem cb``: Analyse circular buffers: depths, stalls, declarations in C++ code, figures in logs."""

from ttmem.commands._group import VerbGroup

_EXAMPLES = """\
ttmem cb simulate 16 16
ttmem cb scan my_op/ --bind num_tiles=64
ttmem cb profile capture.json
ttmem cb analyze --multi --html report.html
"""

command = VerbGroup(
    __name__,
    first=("simulate", "scan", "profile", "analyze"),
    name="cb",
    help="Analyse circular buffers: the depths they need, their declarations in C++ code, figures in logs.",
    epilog=_EXAMPLES,
)
