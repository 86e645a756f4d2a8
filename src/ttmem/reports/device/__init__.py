# SPDX-License-Identifier: Apache-2.0
"""What can run ttnn here."""
