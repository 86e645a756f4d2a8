# SPDX-License-Identifier: Apache-2.0
"""The JSON of ``ttmem explain``: a contract. Keys may be added, never renamed or removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttmem.explain import Diagnosis, Figure, LiveTensor, Picture, Remedy, Stretch, TensorGuess
from ttmem.reports.explain.sentences import thread_url

_MOST_LIVE = 100


def document(diagnoses: Sequence[Diagnosis]) -> list[dict[str, Any]]:
    """One entry per failure, in the order of the text. Byte figures of the allocator are per bank."""
    return [_entry(diagnosis) for diagnosis in diagnoses]


def remedy_entry(remedy: Remedy) -> dict[str, Any]:
    """A remedy; ``saves_bytes`` counts all banks of a chip, or one core where static buffers are concerned."""
    return {
        "do": remedy.do,
        "why": remedy.why,
        "saves_bytes": remedy.saves_bytes,
        "saves_bytes_per_bank": remedy.saves_bytes_per_bank,
        "solves": remedy.solves,
        "caution": remedy.caution or None,
        "evidence": [_thread(thread) for thread in remedy.evidence],
        "id": remedy.id,
    }


def _entry(diagnosis: Diagnosis) -> dict[str, Any]:
    failure = diagnosis.failure
    return {
        "class": failure.failure_class,
        "memory": failure.memory,
        "numbers": dict(failure.numbers),
        "diagnosis": diagnosis.text,
        "tensor_guess": _tensor(diagnosis.tensor),
        "remedies": [remedy_entry(remedy) for remedy in diagnosis.remedies],
        "line": failure.line,
        "headline": diagnosis.headline,
        "confidence": diagnosis.confidence,
        "message": failure.message,
        "template": failure.template or None,
        "texts": dict(failure.texts),
        "is_warning": failure.is_warning,
        "derived": dict(diagnosis.derived),
        "arithmetic": [_figure(figure) for figure in diagnosis.arithmetic],
        "findings": [
            {"id": finding.id, "text": finding.text, "evidence": [_thread(thread) for thread in finding.evidence]}
            for finding in diagnosis.findings
        ],
        "board_guess": _board(diagnosis),
        "context": _context(diagnosis),
        "alive": [_live(tensor) for tensor in _largest(diagnosis.live)],
        "picture": _picture(diagnosis.picture),
        "nearest_template": _nearest(diagnosis),
    }


def _thread(thread: str) -> dict[str, str]:
    return {"thread": thread, "url": thread_url(thread)}


def _tensor(guess: TensorGuess | None) -> dict[str, Any] | None:
    if guess is None:
        return None
    return {
        "confidence": guess.confidence,
        "text": guess.text,
        "shape": list(guess.shape) if guess.shape is not None else None,
        "dtype": guess.dtype,
        "layout": guess.layout,
        "page_bytes": guess.page_bytes,
        "pages": guess.pages,
        "page_candidates": list(guess.page_candidates[:20]),
        "padding_ratio": round(guess.padding_ratio, 4) if guess.padding_ratio is not None else None,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {"label": figure.label, "value": figure.value, "note": figure.note}


def _board(diagnosis: Diagnosis) -> dict[str, Any]:
    board = diagnosis.board
    return {
        "architecture": board.architecture,
        "boards": list(board.boards),
        "confidence": board.confidence,
        "reasons": list(board.reasons),
        "build": list(board.build),
        "numbers": dict(board.numbers),
    }


def _context(diagnosis: Diagnosis) -> dict[str, Any]:
    context = diagnosis.context
    return {
        "operation": context.operation or None,
        "test": context.test or None,
        "settings": dict(context.settings),
        "frames": list(context.frames),
    }


def _largest(live: Sequence[LiveTensor]) -> list[LiveTensor]:
    return sorted(live, key=lambda tensor: -tensor.bytes_per_bank)[:_MOST_LIVE]


def _live(tensor: LiveTensor) -> dict[str, Any]:
    return {
        "tensor": tensor.name,
        "memory": tensor.memory,
        "bytes_per_bank": tensor.bytes_per_bank,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "layout": tensor.layout,
        "weight": tensor.is_weight,
        "idle": tensor.is_idle,
        "producer": tensor.producer,
        "address": tensor.address,
    }


def _picture(picture: Picture | None) -> dict[str, Any] | None:
    if picture is None:
        return None
    return {
        "title": picture.title,
        "end": picture.end,
        "schematic": picture.is_schematic,
        "stretches": [_stretch(stretch) for stretch in picture.stretches],
        "request": _stretch(picture.request) if picture.request else None,
    }


def _stretch(stretch: Stretch) -> dict[str, Any]:
    return {"kind": stretch.kind, "start": stretch.start, "end": stretch.end, "label": stretch.label}


def _nearest(diagnosis: Diagnosis) -> dict[str, Any] | None:
    nearest = diagnosis.nearest
    if nearest is None:
        return None
    return {
        "template": nearest.template,
        "text": nearest.text,
        "class": nearest.failure_class,
        "share": nearest.share,
    }
