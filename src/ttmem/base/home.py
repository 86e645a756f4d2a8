# SPDX-License-Identifier: Apache-2.0
"""The folder for ttmem's own data: ``$TTMEM_HOME``, else ``~/.ttmem``."""

import os
from pathlib import Path

from ttmem.base.errors import BadInputError


def home_folder() -> Path:
    """Return the folder; it need not exist yet."""
    named = os.environ.get("TTMEM_HOME")
    try:
        return Path(named).expanduser().absolute() if named else Path.home() / ".ttmem"
    except RuntimeError:
        raise BadInputError(
            "the home folder is unknown", hint="set the folder that ttmem may write to: TTMEM_HOME=FOLDER"
        ) from None
