# SPDX-License-Identifier: Apache-2.0
"""What sources without a memory history say: plain facts that readers fill, other rooms ask and reports show."""
