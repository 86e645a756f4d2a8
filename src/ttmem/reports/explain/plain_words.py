# SPDX-License-Identifier: Apache-2.0
"""Words that tell nothing about who wrote them: those of the library's messages, and what people put around them."""

import re
from importlib import resources
from itertools import chain

from ttmem.failures import knowledge
from ttmem.hardware import ARCHITECTURES, BOARDS, DATA_TYPES, MEMORIES, RELEASES
from ttmem.operators.catalogue_entries import catalogue
from ttmem.twin.tensor_spec import LAYOUTS

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


def vocabulary() -> frozenset[str]:
    """In lower case. Names with digits in them (``n150``, ``conv2d``, ``bfloat16``) count only as they are known."""
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
