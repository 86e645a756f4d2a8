# SPDX-License-Identifier: Apache-2.0
"""``ttmem ops``: Extract the operators of models, map them to ttnn, write tests."""

from ttmem.commands._group import VerbGroup

_HELP = """Extract the operators of models, map them to ttnn, write tests for them.

A case is one operator with all its shapes, data types and scalars; a case file has one per line and is what
'ttmem sweep' runs.
"""
_EXAMPLES = """
ttmem ops extract hf:ViTConfig --size 224x224 -o cases.jsonl
ttmem ops map cases.jsonl
ttmem ops tests cases.jsonl -o generated
"""

command = VerbGroup(__name__, first=("extract", "map", "tests"), name="ops", help=_HELP, epilog=_EXAMPLES)
