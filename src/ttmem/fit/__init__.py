# SPDX-License-Identifier: Apache-2.0
"""Whether a model fits a board, said before it runs: a stream of calls, played on an engine, is a predicted Profile."""
