# SPDX-License-Identifier: Apache-2.0
"""The shared parts of all reports.

- ``units``: how amounts, shapes and names are written;
- ``tables``: values in rows, written as text, Markdown, CSV or the rows of a page;
- ``console``: text for a terminal;
- ``pages``, ``templates``: offline pages;
- ``charts``: drawings;
- ``sarif``: judgements for code scanning.
"""
