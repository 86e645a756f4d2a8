# SPDX-License-Identifier: Apache-2.0
"""The answers of ttmem, one file per answer: its JSON document and its formats. A report never reads a source."""
