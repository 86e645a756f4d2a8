# SPDX-License-Identifier: Apache-2.0
"""Graph captures of ttnn: nodes, their replay, and the profile in them."""
