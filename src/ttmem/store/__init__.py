# SPDX-License-Identifier: Apache-2.0
"""The kept reports: names, atomic writes, listing."""
