# SPDX-License-Identifier: Apache-2.0
"""Lists of operators that other tools write: one file per format, each yields cases."""
