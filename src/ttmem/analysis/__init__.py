# SPDX-License-Identifier: Apache-2.0
"""One file per question; every function takes a Profile and returns a small result object."""
