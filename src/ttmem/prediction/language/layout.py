# SPDX-License-Identifier: Apache-2.0
"""Apply a recipe to a model, a board and a request: every tensor of one chip."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from ttmem.base.arithmetic import round_up
from ttmem.base.errors import BadInputError
from ttmem.base.limits import PIECES_OF_TENSOR
from ttmem.hardware import BOARDS, DATA_TYPES, OpenSettings, open_board
from ttmem.prediction.language.dimensions import PER_LAYER, Dimensions
from ttmem.prediction.language.recipe import (
    GROUPS,
    MATRICES,
    REQUESTED,
    ConditionalNumber,
    Recipe,
    StageRecord,
    StageTensor,
    TensorRecord,
)
from ttmem.prediction.language.scope import Scope, collect_names
from ttmem.prediction.request import DECODE, PREFILL, Request
from ttmem.prediction.stream import RESERVE, WEIGHT, ModelCall, Resident, Step, alloc_step

_TILE = 32
_KEPT_PAGE_BYTES = 2048
_TRACE_PAGE_BYTES = 8192
_KINDS = (*MATRICES, *GROUPS, "embedding", "norm", "cache", "activation")
_MOST_TENSORS = 200_000


class RecipeLayout:
    """Builds tensors as steps of the engines' protocol."""

    def __init__(self, request: Request, dimensions: Dimensions, recipe: Recipe) -> None:
        self.request, self.dimensions, self.recipe = request, dimensions, recipe
        self.board_chips = BOARDS.find(request.board).chips
        self.chips = request.chips or self._chips_that_divide()
        self.phase = request.phase or PREFILL
        # A batch of sequences is what a recipe calls users.
        self.users = max(request.batch, recipe.default_users) if request.users is None else request.users
        wanted = request.context if request.context is not None else request.sequence
        self.context = recipe.default_context if wanted is None else wanted
        self.prompt = min(request.sequence or self.context, self.context)
        self._check()
        self._own_types = {_check_kind(kind): _check_data_type(word) for kind, word in request.weights.items()}
        if request.kv_cache:
            self._own_types["cache"] = _check_data_type(request.kv_cache)

    def _check(self) -> None:
        least = {"--users": self.users, "--context": self.context, "--chips": self.chips, "--seq": self.prompt}
        for option, number in least.items():
            if number < 1:
                raise BadInputError(f"{option} is {number}; it is 1 or more")
        shares = _count_shares(self.chips)
        for what, heads in (("key-value heads", self.dimensions.key_heads), ("heads", self.dimensions.heads)):
            if heads % shares:
                fitting = [chips for chips in range(1, heads + 1) if heads % chips == 0]
                raise BadInputError(
                    f"{heads} {what} cannot be divided among {shares} chips",
                    hint=f"--chips {', '.join(map(str, fitting))}",
                )
        if not self.scope.holds(self.recipe.only):
            raise BadInputError(
                f"the stack of '{self.recipe.name}' has no models like '{self.dimensions.family}'",
                where=self.request.target,
                hint="--recipe generic, or a recipe file of your own",
            )
        if self.phase not in (PREFILL, DECODE):
            raise BadInputError(f"unknown phase {self.phase!r}", hint=f"known: {PREFILL}, {DECODE}")

    def _chips_that_divide(self) -> int:
        """Return the board's chips if the heads can be divided among them, else the chips of a smaller mesh."""
        sizes = self.dimensions
        for chips in (self.board_chips, 8, 4, 2):
            if (
                chips <= self.board_chips
                and sizes.key_heads % _count_shares(chips) == sizes.heads % _count_shares(chips) == 0
            ):
                return chips
        return 1

    @cached_property
    def scope(self) -> Scope:
        opened = OpenSettings(self.request.l1_small_bytes, self.request.trace_region_bytes)
        names = collect_names(self.dimensions, open_board(self.request.board, opened), self.chips)
        names |= {"users": self.users, "context": self.context, "prompt": self.prompt, "phase": self.phase}
        scope = Scope({**names, "chunk": 0}, self.recipe.name)
        chunk = self.request.prefill_chunk or self._choose_first("chunk", self.recipe.chunk, scope)
        return self._add_let_names(scope.extend({"chunk": chunk}))

    @cached_property
    def trace_bytes(self) -> int:
        """Bytes of the recipe's trace region, unless the request opens one."""
        return 0 if self.request.trace_region_bytes else self._choose_first("trace", self.recipe.trace, self.scope)

    def layer_scope(self, number: int) -> Scope:
        """Return the names inside of a layer; a recipe's own are evaluated again, since they may depend on it."""
        own = self.dimensions.layer(number)
        changed = [name for name in (*PER_LAYER, "is_sliding") if own[name] != self.scope.names[name]]
        scope = self.scope.extend(own)
        return self._add_let_names(scope) if changed else scope

    def _add_let_names(self, scope: Scope) -> Scope:
        for name, text in self.recipe.let.items():
            scope = scope.extend({name: scope.value(text)})
        return scope

    # --- data types ---------------------------------------------------------------------------------------------------

    def data_type(self, kind: str, scope: Scope | None = None) -> str:
        """Return the data type of a kind of weight: from the request, else from the recipe."""
        group = next((name for name, kinds in GROUPS.items() if kind in kinds), kind)
        everything = self._own_types.get("") if kind in MATRICES else None
        word = self._own_types.get(kind) or self._own_types.get(group) or everything
        if word is None:
            word = self.recipe.find_type(kind)
            inner = scope or self.scope
            for change in self.recipe.change:
                if change.layers and inner.names["layer"] not in change.layers:
                    continue
                changed = change.types.get(kind) or change.types.get(group)
                if changed and inner.holds(change.when):
                    word = changed
        return self.request.dtype if word == REQUESTED else DATA_TYPES.find(word).name

    # --- tensors ------------------------------------------------------------------------------------------------------

    def residents(self) -> tuple[Resident, ...]:
        """Build the resident tensors, layer by layer: the first one gets the lowest address."""
        found: list[Resident] = []
        for record in self._list_in_order():
            found += record
            if len(found) > _MOST_TENSORS:
                raise BadInputError(f"{len(found)} tensors are more than can be played", where=self.recipe.name)
        elsewhere = any(record.role == WEIGHT and record.place == "host" for record in self.recipe.tensor)
        if not elsewhere and not any(resident.role == WEIGHT for resident in found):
            hint = "extends = 'generic' keeps the tensors of that recipe"
            raise BadInputError("defines no weight for this model", where=self.recipe.name, hint=hint)
        return tuple(found)

    def _list_in_order(self) -> Iterator[list[Resident]]:
        whole = [record for record in self.recipe.tensor if record.per == "model"]
        layered = [record for record in self.recipe.tensor if record.per == "layer"]
        for record in whole:
            yield self._build_residents(record, self.scope)
        yield list(self._list_reserves())
        for number in range(self.dimensions.layers):
            scope = self.layer_scope(number)
            for record in layered:
                yield self._build_residents(record, scope)

    def _list_reserves(self) -> Iterator[Resident]:
        """Yield what any recipe may reserve: a trace region, and a share of each bank."""
        names = self.scope.names
        if self.trace_bytes:
            yield self._build_reserve(
                "trace region", round_up(-(-self.trace_bytes // names["banks"]), _TRACE_PAGE_BYTES)
            )
        free = int(names["bank_bytes"] * self.recipe.reserve_percent / 100) // _KEPT_PAGE_BYTES * _KEPT_PAGE_BYTES
        if free:
            yield self._build_reserve("kept free", free)

    def _build_residents(self, record: TensorRecord, scope: Scope) -> list[Resident]:
        if record.place == "host" or not scope.holds(record.when):
            return []
        name = record.name.replace("{layer}", str(scope.names["layer"]))
        if record.bytes_per_bank:
            return [self._build_reserve(name, self._evaluate_number(record.name, record.bytes_per_bank, scope, 0))]
        shape = [self._evaluate_size(record, text, scope) for text in record.shape]
        dtype = self.data_type(record.kind, scope) if record.kind else DATA_TYPES.find(record.type).name
        most = self._evaluate_size(record, record.split, scope) if record.split else shape[-1]
        copies = self._evaluate_number(record.name, record.copies, scope, 0)
        if copies * shape[-1] // most > PIECES_OF_TENSOR:
            raise BadInputError(
                f"{record.name}: {copies} copies of {shape[-1]} columns in pieces of {most} are more than "
                f"{PIECES_OF_TENSOR:,} tensors",
                where=self.recipe.name,
            )
        pieces = [min(most, shape[-1] - start) for start in range(0, shape[-1], most)]
        found = []
        for copy in range(copies):
            for piece, columns in enumerate(pieces):
                own = name + (f".{piece}" if len(pieces) > 1 else "") + (f" ({copy + 1})" if copies > 1 else "")
                step = self._build_step(own, record, [*shape[:-1], columns], dtype)
                found.append(Resident(own, record.role, step))
        return found

    def _evaluate_size(self, record: TensorRecord | StageTensor, text: int | str, scope: Scope) -> int:
        return self._evaluate_number(record.name, text, scope, 1)

    def _evaluate_number(self, name: str, text: int | str, scope: Scope, least: int) -> int:
        found = scope.number(text)
        if found < least:
            raise BadInputError(f"{name}: {text!r} is {found}, less than {least}", where=self.recipe.name)
        return found

    def _choose_first(self, name: str, choices: list[ConditionalNumber], scope: Scope) -> int:
        texts = (choice.value for choice in choices if scope.holds(choice.when))
        return next((self._evaluate_number(name, text, scope, 0) for text in texts), 0)

    def _build_step(self, name: str, record: TensorRecord, shape: list[int], dtype: str) -> Step:
        if record.layout == "row_major" and DATA_TYPES.find(dtype).is_block_float:
            if record.kind in self._own_types:
                raise BadInputError(f"{name} is row-major, which {dtype} cannot be", where=self.recipe.name)
            dtype = "bfloat16"
        step = alloc_step(name, shape, dtype, record.layout)
        return {**step, "shard": self._build_strips(shape)} if record.banks == "sharded" else step

    def _build_strips(self, shape: list[int]) -> Mapping[str, Any]:
        """Return width shards: the same number of whole tiles for every bank."""
        banks = self.scope.names["banks"]
        rows = round_up(shape[-2], _TILE)
        strip = round_up(shape[-1], _TILE * banks) // banks
        return {"kind": "width", "shape": [rows, strip], "ranges": [[0, 0, banks - 1, 0]]}

    def _build_reserve(self, name: str, bytes_per_bank: int) -> Resident:
        """Build a reserve of anonymous pages over all banks."""
        pages = -(-bytes_per_bank // _KEPT_PAGE_BYTES) * self.scope.names["banks"]
        return Resident(name, RESERVE, alloc_step(name, [pages, _KEPT_PAGE_BYTES // 4], "uint32", "row_major"))

    def is_on_host(self, name: str) -> bool:
        return any(record.name == name and record.place == "host" for record in self.recipe.tensor)

    # --- stages -------------------------------------------------------------------------------------------------------

    def stages(self, layers: int) -> Iterator[ModelCall]:
        """Yield the stages of a pass, each with its buffers; kept buffers are freed at the end."""
        stages = [stage for stage in self.recipe.stage if stage.phase == self.phase]
        kept = [self._build_stage(stage, self.scope, "") for stage in stages if stage.kept]
        for call in kept:
            yield replace(call, frees=())
        for number in range(layers):
            scope = self.layer_scope(number)
            for stage in stages:
                if stage.per == "layer" and not stage.kept and scope.holds(stage.when):
                    yield self._build_stage(stage, scope, f"model.layers.{number}.")
        for stage in stages:
            if stage.per == "model" and not stage.kept and self.scope.holds(stage.when):
                yield self._build_stage(stage, self.scope, "")
        if left := tuple(name for call in kept for name in call.frees):
            yield ModelCall("end of the pass", (), left, module="model")

    def _build_stage(self, stage: StageRecord, scope: Scope, prefix: str) -> ModelCall:
        steps = []
        for held in stage.holds:
            if not scope.holds(held.when):
                continue
            dtype = self.data_type("activation", scope) if held.type == "activation" else held.type
            shape = [self._evaluate_size(held, text, scope) for text in held.shape]
            name = f"{prefix}{stage.name}.{held.name}"
            steps.append(alloc_step(name, shape, dtype))
        names = tuple(str(step["alloc"]) for step in steps)
        return ModelCall(stage.name, tuple(steps), names, module=f"{prefix}{stage.name}")


def _count_shares(chips: int) -> int:
    """Return the number of chips that share the heads: on 8x4 chips the rows."""
    return 8 if chips == 32 else chips


def _check_kind(word: str) -> str:
    if word and word not in _KINDS:
        raise BadInputError(f"unknown kind of weight {word!r} (--weights)", hint=f"known: {', '.join(_KINDS)}")
    return word


def _check_data_type(word: str) -> str:
    return DATA_TYPES.find(word).name
