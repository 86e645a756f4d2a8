# SPDX-License-Identifier: Apache-2.0
"""Test results of other tools: pytest logs, JUnit XML, tt-metal's sweep framework. Each test once, whoever says it.

A module reads one format and is one of the readers (``registry``); ``folder`` reads a place that holds several.
"""
