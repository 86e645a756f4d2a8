# SPDX-License-Identifier: Apache-2.0
"""A recipe: how a stack places a language model in memory. Recipes are files, packaged (``recipes``) or the user's.

Sizes are expressions over the model, the board and the request (``scope``), so a recipe needs no code.
docs/language-models.md describes the file.
"""

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from ttmem.base import toml
from ttmem.base.errors import BadInputError
from ttmem.base.expression import ExpressionError, NoValueError, find_names
from ttmem.base.limits import LIST_BYTES
from ttmem.base.text_files import read_text
from ttmem.hardware import DATA_TYPES
from ttmem.prediction.language.dimensions import MOST_LAYERS
from ttmem.prediction.language.scope import KNOWN_NAMES, LANGUAGE

FOLDER = Path(__file__).parents[1] / "recipes"
GENERIC, CALLS = "generic", "calls"
REQUESTED = "requested"
"""A data type: that of the request (``--dtype``)."""
GROUPS = {"attn": ("qkv", "o"), "mlp": ("gate", "up", "down")}
"""Groups of kinds of weights."""
MATRICES = (*GROUPS["attn"], *GROUPS["mlp"], "head", "router")
"""Kinds that ``--weights bfloat8_b`` changes: norms and lookup tables keep their type."""
_LARGEST = 1 << 48
"""Limit for any number in a recipe: more bytes, rows or tokens than a machine holds."""
_Number = Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)]
_Count = Annotated[int, Meta(ge=1, le=_LARGEST)]
_Percent = Annotated[float, Meta(ge=0, le=100)]
_Any = _Number | str
_Size = Annotated[int, Meta(ge=0, le=_LARGEST)] | str
_Positive = _Count | str


class _RecipeRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class TensorRecord(_RecipeRecord, frozen=True):
    """A tensor on each chip before the model runs."""

    name: str
    """``{layer}`` is replaced by the number of the layer."""
    role: Literal["weight", "cache", "constant", "reserve", "input"] = "weight"
    kind: str = ""
    """Looked up in ``[types]``; ``--weights kind=...`` changes it."""
    type: str = ""
    """Data type if there is no kind."""
    shape: list[_Positive] = []
    bytes_per_bank: _Size = ""
    """Instead of a shape, for reserved memory."""
    per: Literal["model", "layer"] = "model"
    when: str = ""
    layout: Literal["tile", "row_major"] = "tile"
    banks: Literal["interleaved", "sharded"] = "interleaved"
    """Sharded: each DRAM bank gets an equal strip of columns in whole tiles."""
    copies: _Size = 1
    split: _Positive = ""
    """Most columns per tensor; wider ones are split."""
    place: Literal["device", "host"] = "device"
    """A tensor on the host takes no device memory."""


class StageTensor(_RecipeRecord, frozen=True):
    """A buffer of a stage."""

    name: str
    shape: list[_Positive]
    type: str = "bfloat16"
    """A data type, or ``activation``: the kind of that name."""
    when: str = ""


class StageRecord(_RecipeRecord, frozen=True):
    """A moment of the forward pass with high memory use: its buffers, in addition to the residents."""

    name: str
    phase: Literal["prefill", "decode"] = "prefill"
    per: Literal["model", "layer"] = "layer"
    when: str = ""
    kept: bool = False
    """Its buffers stay until the end of the pass."""
    holds: list[StageTensor] = []


class TypeChange(_RecipeRecord, frozen=True):
    """Data types of some models, or of some of their layers."""

    types: dict[str, str]
    when: str = ""
    layers: list[Annotated[int, Meta(ge=0, lt=MOST_LAYERS)]] = []
    """Layers; none: all."""
    why: str = ""


class Remark(_RecipeRecord, frozen=True):
    """An assumption, and the condition under which it is reported."""

    text: str
    when: str = ""


class ConditionalNumber(_RecipeRecord, frozen=True):
    """A number and its condition; the first choice whose condition holds is used."""

    value: _Size
    when: str = ""


class Recipe(_RecipeRecord, frozen=True):
    """A whole file."""

    name: str = ""
    about: str = ""
    extends: str = ""
    forward: Literal["stages", "calls"] = "stages"
    """The buffers of stages as the file lists them, or the ttnn calls of the model."""
    default_context: _Count = 2048
    default_users: _Count = 1
    reserve_percent: _Percent = 0.0
    """Share of each DRAM bank that is kept free."""
    error_percent: _Percent | None = None
    """Error of the peak, if it was measured."""
    only: str = ""
    """A condition on the supported models; others are rejected."""
    assumed: list[Remark] = []
    """Reported with every answer."""
    let: dict[str, _Any] = {}
    types: dict[str, str] = {}
    change: list[TypeChange] = []
    chunk: list[ConditionalNumber] = []
    """Most tokens of a prompt per chunk; none: the whole prompt."""
    trace: list[ConditionalNumber] = []
    """Bytes of the trace region."""
    tensor: list[TensorRecord] = []
    stage: list[StageRecord] = []

    def find_type(self, kind: str) -> str:
        """Return the data type in ``[types]`` for a kind or its group."""
        group = next((name for name, kinds in GROUPS.items() if kind in kinds), kind)
        return self.types.get(kind) or self.types.get(group) or REQUESTED


def list_recipes() -> list[str]:
    """List the packaged recipes by the name that ``--recipe`` takes."""
    return sorted(path.stem.replace("+", ":") for path in FOLDER.glob("*.toml") if not path.stem.startswith("_"))


def open_recipe(word: str) -> Recipe:
    if word in list_recipes():
        return _open_packaged(word)
    path = Path(word)
    if path.suffix == ".toml" or path.exists():
        return load_recipe(path)
    raise BadInputError(
        f"unknown recipe {word!r}", hint=f"known: {', '.join(list_recipes())}, or a file such as my.toml"
    )


def load_recipe(path: Path) -> Recipe:
    text = read_text(path, most=LIST_BYTES, what="a recipe")
    return parse_recipe(text, where=str(path), default_name=path.stem)


def parse_recipe(text: str, *, where: str, default_name: str, seen: tuple[str, ...] = ()) -> Recipe:
    """Parse the text of a recipe; errors name the line."""
    try:
        document = toml.loads(text)
    except (ValueError, RecursionError) as error:
        line = re.search(r"line (\d+)", str(error))
        raise BadInputError(f"is not TOML: {error}", where=f"{where}:{line[1]}" if line else where) from error
    if not any(document.get(key) for key in ("extends", "tensor", "stage")):
        document["extends"] = GENERIC  # a few keys change a layout; they are none
    source = _RecipeText(text, where)
    source.check_values(document, let=_Any, types=str)
    try:
        recipe = msgspec.convert(document, Recipe)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise source.describe_problem(path.rstrip("`"), message) from None
    source.check(recipe)
    name = recipe.name or default_name
    if recipe.extends:
        recipe = _merge_recipes(_open_base(recipe.extends, where, seen), recipe, document)
    return msgspec.structs.replace(recipe, name=name)


@cache
def _open_packaged(word: str) -> Recipe:
    return _open_base(word, "", ())


def _open_base(word: str, where: str, seen: tuple[str, ...]) -> Recipe:
    """Open the recipe that another one extends: a packaged one, or a part of one."""
    path = FOLDER / f"{word.replace(':', '+')}.toml"
    if word in seen or path.parent != FOLDER or not path.is_file():
        raise BadInputError(f"extends {word!r}", where=where, hint=f"known: {', '.join(list_recipes())}")
    return parse_recipe(path.read_text(encoding="utf-8"), where=path.name, default_name=word, seen=(*seen, word))


def _merge_recipes(base: Recipe, recipe: Recipe, document: dict[str, Any]) -> Recipe:
    """Merge tables; replace tensors and stages of the same name; put the recipe's own choices first."""
    said = {field: getattr(recipe, field) for field in document}
    for field in ("let", "types"):
        said[field] = {**getattr(base, field), **getattr(recipe, field)}
    said["change"] = [*base.change, *recipe.change]
    said["assumed"] = [*base.assumed, *recipe.assumed]
    said["chunk"], said["trace"] = [*recipe.chunk, *base.chunk], [*recipe.trace, *base.trace]
    said["tensor"] = _replace_records(base.tensor, recipe.tensor)
    said["stage"] = _replace_records(base.stage, recipe.stage)
    return msgspec.structs.replace(base, **said)


_Named = TypeVar("_Named", bound=TensorRecord | StageRecord)


def _replace_records(base: list[_Named], own: list[_Named]) -> list[_Named]:
    names = {record.name for record in own}
    return [*(record for record in base if record.name not in names), *own]


class _RecipeText:
    """The text of a recipe: finds the line of an error, and checks what the types do not."""

    def __init__(self, text: str, where: str) -> None:
        self._lines = text.splitlines()
        self._where = where

    def describe_problem(self, path: str, message: str, hint: str = "") -> BadInputError:
        """Build an error for a path such as ``.tensor[3].shape``, with its line."""
        steps = [part for part in re.split(r"\.|\[(\d+)\]", path) if part]
        if named := re.search(r"unknown field `(\w+)`", message):
            steps.append(named[1])
        written = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps).lstrip(".")
        return BadInputError(f"{written}: {message}", where=f"{self._where}:{self._find_line(steps)}", hint=hint)

    def _find_line(self, steps: list[str]) -> int:
        line = 0
        for number, step in enumerate(steps):
            if step.isdigit():
                continue
            index = int(steps[number + 1]) if number + 1 < len(steps) and steps[number + 1].isdigit() else 0
            heading = re.compile(rf"\s*(\[+\s*{re.escape(step)}\s*\]+|\"?{re.escape(step)}\"?\s*=)")
            places = [at for at, text in enumerate(self._lines) if at >= line and heading.match(text)]
            inside = [
                at for at, text in enumerate(self._lines) if at >= line and re.search(rf"\b{re.escape(step)}\b", text)
            ]
            found = places[index : index + 1] or places[-1:] or inside[:1]
            line = found[0] if found else line
        return line + 1

    def check_values(self, document: dict[str, Any], **tables: Any) -> None:
        """Check tables with free keys, for which msgspec does not name the key of a wrong value."""
        for table, kind in tables.items():
            values = document.get(table)
            for name, value in values.items() if isinstance(values, dict) else ():
                try:
                    msgspec.convert(value, kind)
                except msgspec.ValidationError as error:
                    raise self.describe_problem(f".{table}.{name}", str(error)) from None

    def check(self, recipe: Recipe) -> None:
        """Check that expressions are valid and data types exist."""
        known = {*KNOWN_NAMES, *recipe.let, *(_list_inherited_names(recipe.extends) if recipe.extends else ())}
        self._check_expression(".only", recipe.only, known)
        for name, text in recipe.let.items():
            self._check_expression(f".let.{name}", text, known)
        for name, word in recipe.types.items():
            self._check_type(f".types.{name}", word)
        for number, change in enumerate(recipe.change):
            self._check_expression(f".change[{number}].when", change.when, known)
            for name, word in change.types.items():
                self._check_type(f".change[{number}].types.{name}", word)
        for number, remark in enumerate(recipe.assumed):
            self._check_expression(f".assumed[{number}].when", remark.when, known)
        for table, choices in (("chunk", recipe.chunk), ("trace", recipe.trace)):
            for number, choice in enumerate(choices):
                self._check_expression(f".{table}[{number}].when", choice.when, known)
                self._check_expression(f".{table}[{number}].value", choice.value, known)
        for number, tensor in enumerate(recipe.tensor):
            self._check_tensor(f".tensor[{number}]", tensor, known)
        for number, stage in enumerate(recipe.stage):
            self._check_expression(f".stage[{number}].when", stage.when, known)
            for held in stage.holds:
                self._check_type(f".stage[{number}].holds", held.type, "activation")
                for text in (*held.shape, held.when):
                    self._check_expression(f".stage[{number}].holds", text, known)

    def _check_tensor(self, path: str, tensor: TensorRecord, known: set[str]) -> None:
        if bool(tensor.shape) == bool(tensor.bytes_per_bank):
            raise self.describe_problem(path, f"'{tensor.name}' needs either shape or bytes_per_bank")
        if tensor.type:
            self._check_type(f"{path}.type", tensor.type)
        elif not tensor.kind and tensor.shape:
            raise self.describe_problem(path, f"'{tensor.name}' needs a kind or a type")
        for field in ("when", "copies", "split", "bytes_per_bank"):
            self._check_expression(f"{path}.{field}", getattr(tensor, field), known)
        for text in tensor.shape:
            self._check_expression(f"{path}.shape", text, known)

    def _check_expression(self, path: str, text: _Any, known: set[str]) -> None:
        if isinstance(text, int) or not text:
            return
        try:
            if unknown := find_names(text) - known:
                raise self.describe_problem(
                    path, f"unknown name {min(unknown)!r}", f"known: {', '.join(sorted(known))}"
                )
            LANGUAGE.evaluate(text, dict.fromkeys(known, 1))
        except NoValueError:
            return  # under these values
        except ExpressionError as error:
            raise self.describe_problem(path, str(error), LANGUAGE.hint) from None
        except TypeError as error:
            raise self.describe_problem(path, f"{text!r}: {error}") from None

    def _check_type(self, path: str, word: str, *more: str) -> None:
        if word in (REQUESTED, *more):
            return
        try:
            DATA_TYPES.find(word)
        except BadInputError as error:
            raise self.describe_problem(path, error.message, error.hint) from None


def _list_inherited_names(extended: str) -> list[str]:
    try:
        return list(_open_base(extended, "", ()).let)
    except BadInputError:
        return []  # told where the base is opened
