# SPDX-License-Identifier: Apache-2.0
"""Predict whether a model fits a board: a stream of calls, played on an engine, is a predicted Profile."""

from ttmem.base.lazy import callable_room

callable_room(__name__, "ttmem.commands.library.fit")
