# SPDX-License-Identifier: Apache-2.0
"""From a failure to its arithmetic, cause, picture and remedies."""
