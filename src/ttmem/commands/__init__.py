# SPDX-License-Identifier: Apache-2.0
"""The verbs: one file per verb or group of verbs holds the call of ``import ttmem`` and the command line's options."""
