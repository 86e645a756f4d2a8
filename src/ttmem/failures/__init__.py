# SPDX-License-Identifier: Apache-2.0
"""Failure text -> class, arithmetic, cause, remedies. What is known is data (``knowledge/``); one classifier for all.

``text.find`` reads failures, ``diagnosis.diagnose`` explains one. Readers need the first alone, so that the twin, which
the second needs, is not loaded for them.
"""
