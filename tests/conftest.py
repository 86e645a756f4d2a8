# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: property tests try the same examples each time, so that a red run can be repeated.

`TTMEM_HYPOTHESIS=explore pytest ...` tries new ones. No example has a deadline: a busy machine is no fault of ours.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_PATIENT = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile("repeat", deadline=None, derandomize=True, database=None, suppress_health_check=_PATIENT)
settings.register_profile("explore", deadline=None, suppress_health_check=_PATIENT)
settings.load_profile(os.environ.get("TTMEM_HYPOTHESIS", "repeat"))
