# SPDX-License-Identifier: Apache-2.0
"""The typed call of each verb."""
