# SPDX-License-Identifier: Apache-2.0
"""One file per format; a report renders answers of ``ttmem.analysis`` and never reads a source."""
