# SPDX-License-Identifier: Apache-2.0
"""Boards, firmware and links that do not answer are a class of their own: no advice about memory."""

from __future__ import annotations

import pytest

from ttmem.analysis.failure import RunFailure
from ttmem.failures.diagnosis.diagnose import explain
from ttmem.failures.knowledge.tables import find_failure_class

MESSAGES = (
    "Device 15 init: failed to initialize FW! Try resetting the board.",
    (
        "Device 20: Timed out while waiting for active ethernet core (x=29,y=25) to become active again. Try resetting "
        "the board. Minimum tt-firmware version is 18.10.0."
    ),
    (
        "Device 0: Timed out while waiting for active ethernet core 24-25 to become active again. Try resetting the "
        "board. Is the firmware updated? Minimum tt-firmware version is 18.8.0"
    ),
    "Device 0 Firmware update is required. Minimum tt-firmware verison is 18.8.0",
    "Fabric Router Sync: Timeout after 10000 ms on Device 3: expected status 0xa2b2c2d2. Master chan=7 got 0xa0b0c0d0.",
    "Timed out after waiting 1000 ms for ARC to respond",
    "Timed out after waiting 60000 ms for ARC core (x=8,y=0) to start",
    "ARC message 0x90 failed with error code 0xff on device 3",
    "Device 0: Timeout (240000 ms) waiting for physical cores to finish: 14-3, 14-2.",
    "It is not currently safe to communicate with ARC because, another message is queued (0x2c)",
    "Chip initialization failed (aborted): Destination Unreachable.",
    "Read 0xffffffff over PCIe ID 0: the board should be reset.",
    "NOC0 appears hung: you should reset the board.",
    "Timeout waiting for Ethernet core service remote IO request.",
    "ETH training timed out after 900000 ms, on eth core 4, 6",
    "Waiting for ethernet ports to train on chip [1, 0, 0, 0].",
    "No chips detected in the cluster",
    "Unable to reset board successfully, rebooting",
)


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize(
    "envelope",
    ["{}", "RuntimeError: {}", "TT_THROW: {} (assert.hpp:104)", "2026-05-12 10:00:00.1 | critical | Always | {}"],
)
def test_messages_of_the_board(message: str, envelope: str) -> None:
    (diagnosis,) = explain(envelope.format(message))
    assert (diagnosis.failure.failure_class, diagnosis.failure.memory) == ("device", None)
    assert diagnosis.headline.startswith("Not memory")
    advice = " ".join(remedy.do for remedy in diagnosis.remedies)
    assert "reset" in advice
    assert "firmware" in advice
    assert "DRAM" not in advice


def test_the_cores_that_did_not_finish_are_part_of_a_firmware_that_does_not_start() -> None:
    text = """\
Read unexpected run_mailbox value: 0x40 (expected 0x80 or 0x0)
                 Always | FATAL    | Read unexpected run_mailbox value
                 Always | FATAL    | Device 0: Timeout (10000 ms) waiting for physical cores to finish: (x=25,y=25).
RuntimeError: TT_THROW @ metal_context.cpp:1203: tt::exception
info:
Device 0 init: failed to initialize FW! Try resetting the board.
"""
    (diagnosis,) = explain(text)
    assert diagnosis.failure.failure_class == "device"
    assert diagnosis.failure.numbers == {"device": 0}


@pytest.mark.parametrize(
    "end", ["Aborted (core dumped)", "Fatal Python error: Aborted", "terminate called without an active exception"]
)
def test_a_warning_that_an_exception_carries_is_the_error(end: str) -> None:
    mailbox = "Read unexpected run_mailbox value from core 25-16"
    text = f"""\
terminate called after throwing an instance of 'std::runtime_error'
  what():  TT_THROW @ /tt_metal/llrt/llrt.cpp:399: tt::exception
info:
{mailbox}
{end}
"""
    (diagnosis,) = explain(text)
    assert diagnosis.failure.failure_class == "device"
    assert not diagnosis.failure.is_warning
    (alone,) = explain(f"warning | Always | {mailbox}")
    assert alone.failure.is_warning
    (after,) = explain(f"RuntimeError: none\n2026-01-22 16:55:01.271 | warning  | Always | {mailbox}")
    assert after.failure.is_warning


def test_the_firmware_that_is_needed_is_named() -> None:
    (diagnosis,) = explain(MESSAGES[1])
    assert any("18.10.0" in finding.text for finding in diagnosis.findings)
    assert any("18.10.0" in remedy.do for remedy in diagnosis.remedies)


@pytest.mark.parametrize(
    ("text", "failure_class"),
    [
        ("after the power cut the ARC does not respond and tt-smi cannot see the card", "device"),
        ("The board won't reset, tt-smi -r hangs", "device"),
        ("test hangs, device timed out", "timeout"),
        ("out of memory on the board, could not start the model", "oom/unknown"),
        ("TIMEOUT: device timeout, potential hang detected, the device is unrecoverable", "timeout"),
        ("Failed: Timeout >300.0s", "timeout"),
    ],
)
def test_words_and_neighbours(text: str, failure_class: str) -> None:
    (diagnosis,) = explain(text)
    assert diagnosis.failure.failure_class == failure_class


def test_it_is_no_failure_of_memory() -> None:
    (diagnosis,) = explain(MESSAGES[0])
    assert find_failure_class("device").status == "error"
    failure = diagnosis.failure
    assert not RunFailure(failure.failure_class, failure.memory, failure.message, failure.template).is_for_memory
