# SPDX-License-Identifier: Apache-2.0
"""What all reports are made of: units, tables, charts, templates."""
