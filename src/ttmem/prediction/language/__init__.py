# SPDX-License-Identifier: Apache-2.0
"""Language models: their sizes, the recipe by which a stack lays them out, and the stream that comes of both."""
