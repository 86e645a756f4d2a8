# SPDX-License-Identifier: Apache-2.0
"""Where ttmem keeps things of its own: ``$TTMEM_HOME``, else ``~/.ttmem``."""

import os
from pathlib import Path

from ttmem.base.errors import BadInputError


def home_folder() -> Path:
    """The folder; it need not exist yet."""
    named = os.environ.get("TTMEM_HOME")
    try:
        return Path(named).expanduser().absolute() if named else Path.home() / ".ttmem"
    except RuntimeError:
        raise BadInputError("no home folder is known", hint="say where ttmem may write: TTMEM_HOME=FOLDER") from None
