"""Stores that version 0.1 began: they go on, their units keep their ids, and no committed byte changes."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build, stages_of
from corpusgen.corpus.recipes.words import RECIPE
from corpusgen.engine import LocalExecutor
from corpusgen.io.hashing import content_hash
from corpusgen.store import Store
from corpusgen.store.check import verify
from corpusgen.store.products import WORDS, product_of

FOLDER = Path(__file__).parent / "version_0_1"
FINGERPRINTS = json.loads((FOLDER / "fingerprints.json").read_text())
WRITTEN_AT = 1_700_000_000  # the time of the text file: part of its units' ids


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A finished store of targets, in the folder of its text."""
    shutil.copy(FOLDER / "text.txt", tmp_path)
    os.utime(tmp_path / "text.txt", (WRITTEN_AT, WRITTEN_AT))
    zipfile.ZipFile(FOLDER / "store.zip").extractall(tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and "events" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_no_unit_gets_another_id(name, tmp_path):
    settings, expected = FINGERPRINTS[name]["settings"], FINGERPRINTS[name]["fingerprints"]
    config = BuildConfig.model_validate({**settings, "store": str(tmp_path / "store")})
    store = Store.at(config.store)
    for pass_name, fingerprint in expected.items():
        stages = RECIPE.passes[pass_name].stages(config, store)
        assert content_hash({"pass": pass_name, "stages": [stage.identity() for stage in stages]}) == fingerprint
    assert len(stages_of(config, store)) >= len(expected)


@pytest.mark.parametrize("lost", [(), ("sample",), ("selection", "sample"), ("harvest", "vocabulary", "candidates")])
def test_a_store_goes_on_where_it_stopped_with_the_same_bytes(begun, lost):
    before = contents(begun)
    for name in lost:
        next((begun / name / "commits").iterdir()).unlink()
    config = BuildConfig.model_validate({**FINGERPRINTS["plain"]["settings"], "store": "store"})
    store = build(config, LocalExecutor())
    after = contents(begun)
    assert all(check.ok for check in verify(store, RECIPE.reads, RECIPE.passes))
    assert {path for path in after if "/commits/" not in path} == {path for path in before if "/commits/" not in path}
    assert all(after[path] == before[path] for path in before if "/commits/" not in path)
    assert product_of(store) is WORDS


def test_a_new_store_has_the_same_parts_and_names_its_recipe(begun):
    old = Store.at("store")
    config = BuildConfig.model_validate({**FINGERPRINTS["plain"]["settings"], "store": "new"})
    new = build(config, LocalExecutor())
    parts = [{p for p in contents(Path(store.url)) if "/parts/" in p} for store in (old, new)]
    assert parts[0] == parts[1]
    assert new.corpus()["recipe"] == "words"
    assert "recipe" not in old.corpus()
