# SPDX-License-Identifier: Apache-2.0
"""Asks the real ttnn-visualizer about a report, through its own web application; runs under its interpreter.

python ask_visualizer.py REPORT_FOLDER ENDPOINT...
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

HOME = tempfile.mkdtemp()
os.environ.update(
    HOME=HOME,
    APP_DATA_DIRECTORY=f"{HOME}/app",
    REPORT_DATA_DIRECTORY=f"{HOME}/reports",
    USAGE_RECORDING_DISABLED="1",
    LAUNCH_BROWSER_ON_START="false",
    PRINT_ENV="false",
)

from ttnn_visualizer.app import create_app  # noqa: E402
from ttnn_visualizer.instances import create_instance_from_local_paths  # noqa: E402

app = create_app()
with app.app_context():
    instance = create_instance_from_local_paths(profiler_path=sys.argv[1], performance_path=None).instance_id
client = app.test_client()
answers = {}
for endpoint in sys.argv[2:]:
    mark = "&" if "?" in endpoint else "?"
    response = client.get(f"/api/{endpoint}{mark}instanceId={instance}")
    answers[endpoint] = {"status": response.status_code, "body": response.get_json(silent=True)}
sys.stdout.write(json.dumps(answers) + "\n")
