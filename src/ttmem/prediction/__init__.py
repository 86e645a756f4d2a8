# SPDX-License-Identifier: Apache-2.0
"""Predict whether a model fits a board: a stream of calls, played on an engine, is a predicted Profile."""
