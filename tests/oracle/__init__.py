# SPDX-License-Identifier: Apache-2.0
"""The real ttnn on a mock cluster as the judge of the twin.

`mock_cluster` and `ttnn_process` run in the interpreter that has ttnn (standard library and ttnn alone); the rest runs
in the test's own interpreter and talks to it in JSON lines.
"""
