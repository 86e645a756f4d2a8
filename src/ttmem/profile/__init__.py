# SPDX-License-Identifier: Apache-2.0
"""The Profile: its model, the builder that fills it, its file, the store of kept reports, selections of it."""
