# SPDX-License-Identifier: Apache-2.0
"""Parts that all reports share: documents, tables, text for a terminal, pages, drawings and SARIF."""
