# SPDX-License-Identifier: Apache-2.0
"""Questions to a Profile, one file each; every function takes a Profile and returns a small result object."""
