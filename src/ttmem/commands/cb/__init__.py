# SPDX-License-Identifier: Apache-2.0
"""``ttmem cb``: Circular buffers: depths, stalls, declarations in C++ code, what logs say."""

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
    help="Circular buffers: how deep they should be, what declares them, what was seen of them.",
    epilog=_EXAMPLES,
)
