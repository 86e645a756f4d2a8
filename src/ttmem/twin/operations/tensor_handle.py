# SPDX-License-Identifier: Apache-2.0
"""Operations that are chains of others: what each step makes, and when the one before it goes."""

from dataclasses import dataclass
from typing import Any

from ttmem.hardware import Memory
from ttmem.twin.operations.plan import Call, NoRuleError, PlanWriter, dimension
from ttmem.twin.operations.record import PlanFunction
from ttmem.twin.tensor_spec import NdShard, Shard, TensorSpec


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor on the way: its slot, -1 for the operation's own input."""

    slot: int
    spec: TensorSpec


def applied(
    plan: PlanWriter,
    rule: PlanFunction,
    held: Held,
    memory: Memory | None = None,
    shard: Shard | NdShard | None = None,
    **arguments: Any,
) -> Held:
    """What another operation makes of it; a view keeps the slot. NoRuleError when nothing is known of it."""
    made = rule(Call("", (held.spec,), arguments, memory, shard=shard), plan)
    if not made.results:
        raise NoRuleError(made.note)
    ((slot, spec),) = made.results
    return Held(held.slot if slot < 0 else slot, spec)


def replaced(plan: PlanWriter, before: Held, after: Held, *, keep: int = 0) -> Held:
    """The next step's result is there; the one before goes, unless its owner still holds it."""
    if before.slot not in (after.slot, keep):
        plan.free(before.slot)
    return after


def axes_of(dim: Any, rank: int) -> list[int]:
    """Dimensions counted from the front, in order; None: all of them."""
    if dim is None:
        return list(range(rank))
    return sorted({dimension(axis, rank) for axis in ([dim] if isinstance(dim, int) else dim)})
