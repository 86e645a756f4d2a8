# SPDX-License-Identifier: Apache-2.0
"""What running processes hold on the cards."""
