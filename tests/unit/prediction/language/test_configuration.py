# SPDX-License-Identifier: Apache-2.0
"""Configurations: from a file without torch, from transformers through the tracer; what is asked decides the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.model_configurations import GEMMA_3_4B, LLAMA_8B
from ttmem.base.errors import BadInputError, TtmemError
from ttmem.operators.tracing import find_torch_python
from ttmem.prediction.language.configuration import model_name, read_config, wants_recipe
from ttmem.prediction.language.dimensions import read_dimensions
from ttmem.prediction.request import Request


@pytest.fixture(scope="session")
def torch_python() -> str:
    """An interpreter that has torch."""
    try:
        return find_torch_python()
    except TtmemError as error:
        pytest.skip(f"NO CONFIGURATION WAS DESCRIBED: {error}")


def test_a_file_or_its_folder_is_read_and_settings_change_it(tmp_path: Path) -> None:
    folder = tmp_path / "Gemma-3-4B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(GEMMA_3_4B))
    for target in (folder, folder / "config.json"):
        request = Request(str(target), settings={"num_hidden_layers": 2})
        config = read_config(request)
        assert config["text_config"]["num_hidden_layers"] == 2
        assert (model_name(request, config), wants_recipe(request)) == ("Gemma-3-4B", True)


@pytest.mark.parametrize(("content", "told"), [("{", "is not JSON"), ("[1]", "no object"), ("\xff", "is not JSON")])
def test_a_file_that_is_no_configuration_is_refused_by_name(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content, encoding="latin-1")
    with pytest.raises(BadInputError, match=told) as refused:
        read_config(Request(str(file)))
    assert refused.value.where == str(file)


def test_transformers_describes_a_configuration_without_a_model(torch_python: str) -> None:
    settings = {key: value for key, value in LLAMA_8B.items() if key not in ("model_type", "num_attention_heads")}
    request = Request("hf:LlamaConfig", users=1, settings=settings, torch_python=torch_python)
    # heads of 128 follow from the sizes, and from the file the same ones
    assert read_dimensions(read_config(request)) == read_dimensions(LLAMA_8B)
    assert wants_recipe(request)
    assert not wants_recipe(Request("hf:LlamaConfig", torch_python=torch_python))


def test_a_setting_that_a_configuration_does_not_have_is_refused(torch_python: str) -> None:
    with pytest.raises(BadInputError, match="LlamaConfig has no setting 'layers'"):
        read_config(Request("hf:LlamaConfig", settings={"layers": 3}, torch_python=torch_python))
