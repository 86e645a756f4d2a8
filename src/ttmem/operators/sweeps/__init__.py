# SPDX-License-Identifier: Apache-2.0
"""Cases x engine -> results: plan, journal, run, resume, distribute, limits, advice, summaries."""
