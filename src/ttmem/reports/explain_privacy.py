# SPDX-License-Identifier: Apache-2.0
"""Mask private text: only what is known to be harmless stays.

No list of patterns knows every secret, so the text of a failure is read word by word: the words of the library's own
messages stay, and so do figures, shapes, names of operations, boards and data types, functions of the library and the
base names of its source files. Everything else is replaced by the kind of thing that it seems to be.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from itertools import chain

from ttmem.failures import knowledge
from ttmem.hardware import ARCHITECTURES, BOARDS, DATA_TYPES, MEMORIES, RELEASES
from ttmem.operators.catalogue_entries import catalogue
from ttmem.twin.tensor_spec import LAYOUTS

_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>)`]+", re.IGNORECASE)
_ACCOUNT = re.compile(r"(?<![\w.-])[\w.+-]+(?::[^\s@/]+)?@[\w-]+(?:\.[\w-]+)*")
_SECRET = re.compile(
    r"(?i)(?P<key>\b[\w.-]*(?:passw(?:or)?d|passphrase|passwd|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|credentials?|authori[sz]ation|auth|cookie|session[_-]?id|token|signature)\b[\"']?)"
    r"(?P<between>\s*(?:[=:]|\bis\b|\bwas\b)\s*(?:(?:bearer|basic|digest|negotiate|token)\s+)?)"
    r"(?P<value>\"[^\"]*\"|'[^']*'|`[^`]*`|[^\s\"'`]+(?:;\s+[\w-]+=\S+)*)"
)
_SCHEME = re.compile(
    r"(?i)(?P<key>\b(?:bearer|password|passphrase|passwd)\b)(?P<between>\s+)(?P<value>(?!is\b|was\b)[^\s\"'`=:]+)"
)
_PATH = re.compile(
    r"(?:~[\w.-]*|(?<![A-Za-z])[A-Za-z]:|\.{1,2})?(?<![\w<])(?:[/\\][^\s/\\\"'`<>|:;,()\[\]{}]+)+[/\\]?"
    r"|(?<![\w.])(?:~[\w.-]*|\.{1,2})(?:[/\\][^\s/\\\"'`<>|:;,()\[\]{}]+)+[/\\]?"
)
_GLUED_PATH = re.compile(r"(?<![\w-])(?P<flag>-[A-Za-z])(?P<path>[/\\~.][^\s\"'`<>|:;,()\[\]{}]+)")
_HOST = re.compile(
    r"(?<![\w./-])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9-]+)*"
    r"\.(?:com|net|org|io|ai|dev|cloud|local|localdomain|internal|intra|intranet|lan|corp|home|edu|gov|test|example)"
    r"(?![\w(])",
    re.IGNORECASE,
)
_HOST_WORD = re.compile(
    r"(?i)\b(host(?:name)?|node(?:name)?|server|machine|user(?:name)?|login)(\s*[=:]\s*|\s+name\s+)([\w.-]+)"
)
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?(?::\d{1,5})?(?![\d.])")
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![\w:])", re.IGNORECASE)
_IPV6 = re.compile(
    r"(?<![\w:])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?:\.\d{1,3}){0,3}(?:%\w+)?(?:/\d{1,3})?(?![\w:])", re.IGNORECASE
)
_COMMON_NAMES = frozenset({"root", "user", "admin", "ubuntu", "runner", "test", "localhost", "main", "build"})

_PLACEHOLDER = r"<(?:url|user|host|account|name|address|path|secret|word)>(?:@<host>)?"
_OF_LIBRARY = r"(?:tt\w*|std|pybind11|nanobind|torch|at|c10|fmt)(?:::~?\w+)+|(?:ttnn|torch)(?:\.[a-z_]\w*)+"
_PIECE = re.compile(rf"(?P<kept>{_PLACEHOLDER}|{_OF_LIBRARY})|[^\s\"'`()\[\]{{}}<>,;:=|&]+")
_FIGURE = re.compile(
    r"[#%~+-]{0,2}\d{1,15}(?:[.,_/x*-]\d{1,15}){0,15}(?:e[+-]?\d{1,3})?"
    r"(?:[kmgt]?i?b(?:/s)?|[kmg]hz|%|x|[mun]?s|st|nd|rd|th|d)?|[+-]?0x[0-9a-f]{1,16}|[^\w\s]{1,3}",
    re.IGNORECASE,
)
_SOURCE = re.compile(r"\.(?:cpp|hpp|cc|cxx|h|hh|inl|cu)$")
_LIBRARY_FOLDERS = {"tt_metal", "ttnn", "tt-metal", "tt_eager", "tt_stl", "tt-mlir", "tt-xla"}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def mask_private_text(text: str, *, names: Iterable[str] = ()) -> str:
    """Mask what is recognised as private in a sentence of our own."""
    return Mask(names).mask_sentence(text)


class Mask:
    """Masks private text and records what it was.

    ``names`` are the reader's own: account and host of the machine, which no pattern can know.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = [name for name in names if len(name) > 2 and name.lower() not in _COMMON_NAMES]
        self.masked: list[tuple[str, str]] = []
        """(kind, text), in order of occurrence."""

    def count_kinds(self) -> dict[str, int]:
        """Count the distinct masked texts by kind."""
        return dict(Counter(kind for kind, _ in dict.fromkeys(self.masked)))

    def mask_sentence(self, text: str) -> str:
        """Mask what is recognised as private in our own words; the last part of a path may stay."""
        text = _URL.sub(lambda found: self._replace("url", found[0]), text)
        for pattern in (_SECRET, _SCHEME):
            text = pattern.sub(self._mask_secret, text)
        text = _ACCOUNT.sub(lambda found: self._replace("account", found[0], "<user>@<host>"), text)
        text = _GLUED_PATH.sub(lambda found: found["flag"] + self._mask_path(found["path"]), text)
        text = _PATH.sub(lambda found: self._mask_path(found[0]), text)
        text = _HOST_WORD.sub(lambda found: found[1] + found[2] + self._replace("name", found[3]), text)
        for pattern in (_MAC, _IPV4):
            text = pattern.sub(lambda found: self._replace("address", found[0]), text)
        text = _IPV6.sub(self._mask_address, text)
        text = _HOST.sub(lambda found: self._replace("host", found[0]), text)
        for name in self._names:
            whole = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"
            text = re.sub(whole, lambda found: self._replace("name", found[0]), text, flags=re.IGNORECASE)
        return text

    def mask_quotation(self, text: str) -> str:
        """Mask every word of a quotation that is not known to be harmless."""
        return _PIECE.sub(self._mask_piece, self.mask_sentence(text))

    def _mask_piece(self, found: re.Match[str]) -> str:
        word = found[0]
        core = word.strip(".!?*#$%^~-+/\\")
        if found["kept"] or not core or _is_harmless(word) or _is_harmless(core):
            return word
        return self._replace("word", word)

    def _mask_secret(self, found: re.Match[str]) -> str:
        if re.fullmatch(rf"[\"'`]?{_PLACEHOLDER}[\"'`]?", found["value"]) or _is_count(found):
            return found[0]
        return found["key"] + found["between"] + self._replace("secret", found["value"])

    def _mask_address(self, found: re.Match[str]) -> str:
        bare = re.split(r"[%/]", found[0])[0]
        try:
            ipaddress.IPv6Address(bare)
        except ValueError:
            return found[0]
        return self._replace("address", found[0]) if bare.strip(":") else found[0]

    def _mask_path(self, path: str) -> str:
        """Keep ``bank_manager.cpp`` of a path to it, and nothing of a path to a folder."""
        parts: Sequence[str] = re.split(r"[/\\]", path.rstrip("/\\"))
        last = parts[-1]
        self.masked.append(("path", path))
        if re.search(r"\.\w{1,8}$", last):
            of_library = _SOURCE.search(last) and not _LIBRARY_FOLDERS.isdisjoint(parts)
            return last if of_library or _is_harmless(last) else "<file>"
        return "<path>"

    def _replace(self, kind: str, text: str, shown: str = "") -> str:
        self.masked.append((kind, text))
        return shown or f"<{kind}>"


def _is_count(found: re.Match[str]) -> bool:
    """Return whether it is a figure of a model: ``max_token: 128``, ``token is 5``."""
    return found["key"].lower().endswith("token") and bool(re.fullmatch(r"\d{1,7}[.,;)]?", found["value"]))


@cache
def _is_harmless(word: str) -> bool:
    """Return whether a word is a figure, a word of the messages, or a name made of such words."""
    if len(word) > 100:
        return False
    if _FIGURE.fullmatch(word):
        return True
    lowered = word.lower()
    if lowered in _read_vocabulary():
        return True
    if _SOURCE.search(word) and re.fullmatch(r"[a-z0-9_]+\.\w+", word):
        return True  # where an assertion names its file without a path
    if re.search(r"\d", word):  # names of machines are words with numbers, so those must be known as they are
        return all(
            part in _read_vocabulary() or re.fullmatch(r"\d{1,6}", part) for part in re.split(r"[._/]", lowered) if part
        )
    found = _WORDS.findall(word)
    return bool(found) and all(part.lower() in _read_vocabulary() for part in found)


@cache
def _read_vocabulary() -> frozenset[str]:
    return list_harmless_words()


_MIXED = re.compile(r"(?=\w*\d)(?=\w*[a-z])\w+", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_COMMON = """
a about above abs access account across active actual add added after again against all allocate allocates almost alone
already also although always an and another any anything api are argument arguments around array as assert assertion at
attribute average axis back bad base batch be because been before begin behind being below best better between beyond bf
bias big bit bits block both but by byte bytes call called caller calls came can cannot case cases cast catch cause cb
change check child chunk class clean clear close closed code col cold column columns come common compare compile
complete compute config connect const contains context convert copy core cores correct could count cpp crash create
created current data dead dec decode deep default define delete depth describe did dim dims direct disable do does done
down dram dtype dump during each early edge either element else emit empty enable end ended engine enough ensure enter
entry env equal err error errors even event every exact exceed except exception exec exist exit expected explicit extra
fail failed failing fails failure false far fast fatal few file files fill final find first fit fits fixed flag float
follow for force fork form format found frame free from full func function gave get gets give given global go going good
got graph greater grid group grow had half halt hand has have head height help hence here high hold host hot how id if
ignore image impl import in inc index info inner input inputs inside instead int internal into invalid inv io is it item
iter its itself job join just keep kernel key keys kill killed kind know known label large last late later launch layer
layout least left len length less let level lib like limit line lines link list load local lock log logical long loop
low made main make many map mark match max may mean means mem memory merge message metal method middle might min missing
mode model module more most move much multi must name names native need needed needs nested never new next no node none
nor not note nothing now null num number numbers object of off offset old on once one only open op operation operator
operators ops option or order other others our out outer output outputs over own pack page pages pair param parameter
parent part parts pass passed path per pid place plain plan please point pool pop port possible post pre print private
proc process program project properly property public pull push put py pytest query queue quit raise raised range rank
rate raw re reach read ready real reason record ref region register release remove repeat replace report request
required reset reshape resource rest result results retry return returned right root round row rows rule run running
runs runtime safe same sample save say scale script search second see seen self send sequence serial server set sets
setting setup seven several shape shapes shard share short should show shown side sign signal simple since single size
sizes skip slice slow small so some something soon sort source space span specific split stack stage stand start started
state static status step still stop store str stream string strong struct sub such sum support supported sure swap
system table tag take taken task tensor tensors term test tests text than that the their them then there these they
thing this those thread three through thus tile tiles time timeout times to together token tokens too tool top total
torch trace traceback train tree tried true try tt ttnn tuple turn two type types under unit unknown unless until up
update upper usage use used user uses using usual val valid value values var vector version very via view void wait want
warn warning was way we weight weights well were what when where whether which while who whole why wide width will with
within without work worker would write written wrong yes yet you your zero
authorization bearer cookie credentials hostname loc login machine my passphrase passwd password pwd secret session
signature username wrote kib mib gib tib kb mb gb tb unsigned signed bool double b0 wormhole blackhole wormhole_b0
affine artifacts callsite carries certain codes d0 description dialect evaluating executing feed folder forward
generating getting gpt head hidden i32 issue jax lm llama location memref mlir mpi named near optimal oss prefix
prompts quoted removed reshaped reshard si32 ttrt ui32 xxl t5
"""


def list_harmless_words() -> frozenset[str]:
    """List words of the library's messages in lower case; names with digits (``n150``, ``conv2d``) only as a whole."""
    registered = chain.from_iterable(
        (entry.name for entry in registry)
        for registry in (ARCHITECTURES, BOARDS, DATA_TYPES, MEMORIES, RELEASES, LAYOUTS)
    )
    operators = (f"{operator.aten} {operator.ttnn}" for operator in catalogue().operators.values())
    texts = [_COMMON, *registered, *operators]
    texts += [file.read_text("utf-8") for file in resources.files(knowledge).iterdir() if file.name.endswith(".toml")]
    found: set[str] = set()
    for text in texts:
        found.update(word.lower() for word in _PLAIN.findall(text))
        for word in _MIXED.findall(text):
            found.update((word.lower(), *word.lower().split("_")))
    return frozenset(found)
