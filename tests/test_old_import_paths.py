"""Import paths that version 0.1 documented still work, and say where the names are now."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("old", "names"),
    [
        ("corpusgen.translate", ("TranslatorSettings", "open_translator")),
        ("distiller.features", ("bytes_per_triple",)),
        ("corpusgen.store", ("CommittedTable", "Store", "TripleStore")),
        ("distiller", ("WordDistiller",)),
    ],
)
def test_names_of_version_0_1_are_where_they_were(old, names):
    module = importlib.import_module(old)
    assert all(hasattr(module, name) for name in names)


@pytest.mark.parametrize("old", ["corpusgen.translate", "distiller.features"])
def test_a_moved_module_says_where_it_is_now(old, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is now"):
        importlib.import_module(old)


def test_the_states_of_a_triple_take_what_they_took():
    from distiller.features import bytes_per_triple

    assert bytes_per_triple(layers=12, dimension=1024) == 73_728
