# SPDX-License-Identifier: Apache-2.0
"""The stored reports in a browser: a server for one user on this machine, behind a token."""
