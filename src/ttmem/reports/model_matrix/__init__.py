# SPDX-License-Identifier: Apache-2.0
"""Models x boards: whether each fits, how full it gets, or why there is no answer."""
