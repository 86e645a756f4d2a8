# SPDX-License-Identifier: Apache-2.0
"""One tracing process for all tests of a module."""

from support.one_tracer import _one_tracer

__all__ = ["_one_tracer"]
