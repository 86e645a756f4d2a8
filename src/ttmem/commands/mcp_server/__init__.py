# SPDX-License-Identifier: Apache-2.0
"""The verbs as tools for agents, over the Model Context Protocol on stdin and stdout."""
