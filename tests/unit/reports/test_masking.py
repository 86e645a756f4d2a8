# SPDX-License-Identifier: Apache-2.0
"""``explain --issue``: nothing private gets into a report that strangers read, and what helps them stays."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ttmem
from support import bad_values
from support.examples import examples
from ttmem.base import toml
from ttmem.reports import explain
from ttmem.reports.explain_privacy import Mask, _read_vocabulary

KNOWLEDGE = Path(ttmem.__file__).parent / "failures" / "knowledge"
OOM = (
    "RuntimeError: TT_FATAL @ /home/alice/tt-metal/tt_metal/impl/allocator/bank_manager.cpp:462: address.has_value() "
    "info: Out of Memory: Not enough space to allocate 16777216 B L1 buffer across 8 banks, where each bank needs to "
    "store 2097152 B, but bank size is 1395424 B (allocated: 0 B, free: 1395424 B, largest free block: 1395424 B)"
)

ALNUM = string.ascii_letters + string.digits
LETTERS = st.text(string.ascii_lowercase, min_size=6, max_size=12).filter(lambda word: word not in _read_vocabulary())
MIXED = st.text(ALNUM, min_size=8, max_size=40).filter(
    lambda word: any(map(str.isdigit, word)) and any(map(str.isalpha, word)) and not word.lower().startswith("0x")
)
HEX = st.text("0123456789abcdef", min_size=1, max_size=4)

SECRETS = st.one_of(
    st.builds("ghp_{}".format, st.text(ALNUM, min_size=36, max_size=36)),
    st.builds("AKIA{}".format, st.text(string.ascii_uppercase + string.digits, min_size=16, max_size=16)),
    st.builds("eyJ{}.{}.{}".format, MIXED, MIXED, MIXED),
    st.builds("glpat-{}".format, MIXED),
    st.builds("sk-{}-{}".format, LETTERS, MIXED),
    st.builds("{}!{}#1".format, LETTERS, LETTERS),
    MIXED,
    LETTERS,
)
PATHS = st.builds(
    "{}/{}/{}/{}".format, st.sampled_from(["", "~", "/home", "/mnt", "..", "/opt/acme"]), LETTERS, LETTERS, LETTERS
)
WINDOWS_PATHS = st.builds("C:\\Users\\{}\\{}".format, LETTERS, LETTERS)
HOSTS = st.builds(
    "{}{}{}".format,
    LETTERS,
    st.sampled_from(["-17", "07", "-gpu-3", ""]),
    st.sampled_from([".corp", ".internal", ".acme.com", ".lan", ""]),
)
MAILS = st.builds("{}.{}@{}.{}".format, LETTERS, LETTERS, LETTERS, st.sampled_from(["com", "io", "local", "co.uk"]))
URLS = st.builds(
    "{}://{}.{}/{}?{}={}".format,
    st.sampled_from(["http", "https", "ssh", "git", "s3", "postgres"]),
    LETTERS,
    st.sampled_from(["internal:8080", "corp", "acme.com", "lan"]),
    LETTERS,
    LETTERS,
    MIXED,
)
IPV6 = st.one_of(
    st.builds("fe80::{}".format, HEX),
    st.builds("2001:db8::{}:{}".format, HEX, HEX),
    st.builds("fd{}::1%eth0".format, st.text("0123456789abcdef", min_size=2, max_size=2)),
    st.builds("::ffff:10.{}.2.3".format, st.integers(0, 255)),
)
PRIVATE = st.one_of(SECRETS, PATHS, WINDOWS_PATHS, HOSTS, MAILS, URLS, IPV6)

CONTEXTS = """
{}
on {}
at {} rank 3
({})
[{}]
'{}'
"{}"
`{}`
<{}>
x={}
x: {}
x;{}
x|{}
x | {}
x,{}
-I{}
-I {}
-L{} -l
--root={}
PATH={}:{}
cd {} && run
$({})
a>{}
&{}
#{}
({},1)
token={}
token: {}
password {}
password is {}
Authorization: Bearer {}
bearer {}
"api_key": "{}"
host {}
ssh {}
user={}
login as {}
AWS_SECRET_ACCESS_KEY={}
{}.
{}, then
failed on {}!
*{}*
**{}**
_{}_
//{}
x{{{}}}
export KEY='{}'
curl -u me:{} x
Cookie: session={}
""".strip().splitlines()


def _tell_tale(private: str) -> list[str]:
    """Stretches of it that would give it away."""
    words = [
        word
        for word in re.split(r"[^A-Za-z0-9]+", private)
        if len(word) >= 6 and word.lower() not in _read_vocabulary()
    ]
    return words or [private]


@given(PRIVATE, st.sampled_from(CONTEXTS))
@examples(600)
def test_no_private_thing_is_left_in_any_context(private: str, context: str) -> None:
    shown = Mask().mask_quotation(f"Out of Memory: {context.format(private, private)} not enough space")
    for word in _tell_tale(private):
        assert word not in shown, (context, private, shown)
    assert "not enough space" in shown or "password" in context or "bearer" in context.lower()


@given(PRIVATE, st.sampled_from(CONTEXTS))
@examples(60)
def test_the_whole_report_has_none_either(private: str, context: str) -> None:
    said = context.format(private, private)
    text = f"{said}\n{OOM}\n{said}\nRuntimeError: TT_FATAL @ /x/y.cpp:3: size > 0\ninfo:\ncannot read {said}\n"
    report = explain.render_issue(ttmem.explain(text).diagnoses)
    for word in _tell_tale(private):
        assert word not in report, (context, private)
    assert "16777216 B L1 buffer across 8 banks" in report
    assert "bank_manager.cpp:462" in report
    assert "alice" not in report


def _examples() -> list[str]:
    return [
        example["text"]
        for file in sorted(KNOWLEDGE.glob("*.toml"))
        for example in toml.loads(file.read_text()).get("example", ())
    ]


def test_the_library_s_own_messages_stay_word_for_word() -> None:
    mask = Mask()
    for text in _examples():
        assert mask.mask_quotation(text) == text
    assert mask.masked == []


@pytest.mark.parametrize(
    "text",
    [
        "ttnn.conv2d on core range [(x=0,y=0) - (x=7,y=7)] needs 1,395,424 B (1.33 MiB, 98.5%) of L1",
        "shape [1, 96, 2176, 1920] bfloat16 tile, 1x1x32x64, 0x1f3a0, grid 8x8, wormhole_b0, n150, row-major",
        "tt::tt_metal::BankManager::allocate_buffer(unsigned long, bool) in bank_manager.cpp:462",
        "test_silu[shape0-bfloat16]: E RuntimeError: std::bad_alloc",
        "at 12:30:45 version 0.81.1, in/out 3/4, q/k chunk sizes",
    ],
)
def test_what_helps_a_maintainer_stays(text: str) -> None:
    kept = Mask().mask_quotation(text)
    assert kept.count("<word>") <= text.count("shape0"), kept


def test_the_author_is_told_what_was_masked(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("RuntimeError: TT_FATAL @ /x/y.cpp:3: size > 0\ninfo:\ncannot read /home/bob/models, token=abc123\n")
    code, report, said = bad_values.run(["explain", str(log), "--issue"])
    assert (code, b"bob" in report, b"abc123" in report) == (0, False, False)
    assert b"masked: " in said
    assert b"--show-masked lists them" in said
    assert b"abc123" not in said
    _, again, listed = bad_values.run(["explain", str(log), "--issue", "--show-masked"])
    assert again == report
    assert b"secret: abc123" in listed
    assert b"path: /home/bob/models" in listed
