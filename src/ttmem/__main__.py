# SPDX-License-Identifier: Apache-2.0
"""``python -m ttmem`` is ``ttmem``."""

import sys

from ttmem.commands.program import main

if __name__ == "__main__":
    sys.exit(main())
