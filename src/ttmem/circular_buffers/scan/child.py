# SPDX-License-Identifier: Apache-2.0
"""A child that scans files: the first line lists the headers, every further line a batch; answers are pickled."""

import gc
import json
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

from ttmem.circular_buffers.scan.files import DEEPEST, read_helpers
from ttmem.circular_buffers.scan.scan_file import scan_file


def main(_: Sequence[str]) -> int:
    """Until stdin ends."""
    sys.setrecursionlimit(DEEPEST)
    gc.freeze()
    helpers = read_helpers(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        scans = [scan_file(Path(path), path, helpers) for path in json.loads(line)]
        sys.stdout.buffer.write(pickle.dumps(scans, protocol=5))
        sys.stdout.buffer.flush()
    return 0
