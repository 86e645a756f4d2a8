# SPDX-License-Identifier: Apache-2.0
"""A diagnosis as an issue report for a maintainer: everything one would ask for, nothing private."""

import re
from collections.abc import Iterable, Sequence

from ttmem.failures import Diagnosis
from ttmem.reports.explain.markdown import filled
from ttmem.reports.explain.privacy import Mask
from ttmem.reports.explain.sentences import board_text

_MOST_LIVE = 15
_MOST_REMEDIES = 5


def render(diagnoses: Sequence[Diagnosis], *, private_names: Iterable[str] = (), mask: Mask | None = None) -> str:
    """Markdown; of the user's text only what is known to be harmless stays, and ``mask`` tells what did not."""
    mask = mask or Mask(private_names)
    reports = (
        filled(
            "issue",
            diagnosis,
            facts=_facts(diagnosis, mask),
            public=mask.sentence,
            quoted=mask.quoted,
            most_live=_MOST_LIVE,
            most_remedies=_MOST_REMEDIES,
        )
        for diagnosis in diagnoses
    )
    return "\n\n".join(reports) + "\n"


def _facts(diagnosis: Diagnosis, mask: Mask) -> dict[str, str]:
    failure, context = diagnosis.failure, diagnosis.context
    return {
        "Class": f"{failure.failure_class}, {diagnosis.confidence}",
        "Raised at": mask.quoted(failure.texts.get("file", "")),
        "Operation": mask.quoted(context.operation),
        "Test": mask.quoted(re.sub(r"^[^\s\[]*/", "", context.test)),
        "Board and build (inferred)": board_text(diagnosis.board),
        "Tensor (inferred)": diagnosis.tensor.text if diagnosis.tensor else "",
        "Settings named in the log": ", ".join(f"{name}={value}" for name, value in context.settings.items()),
    }
