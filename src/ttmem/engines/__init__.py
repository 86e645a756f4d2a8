# SPDX-License-Identifier: Apache-2.0
"""Engines predict a board's behaviour: the twin in this process, the real ttnn (mock board or card) in another.

with open_engine("twin", EngineSettings(board="n150")) as engine:
    outcome = engine.ask([{"alloc": "a", "shape": [64, 64], "dtype": "bfloat16", "layout": "tile"}])
"""
