"""The model that identifies languages comes with the package."""

from hashlib import sha256
from pathlib import Path

import pytest

from corpusgen.text.language import FastTextIdentifier, IdentifyLanguage, bundled_model


def test_it_is_fasttexts_own_file_and_its_origin_is_beside_it():
    path = Path(bundled_model())
    digest = sha256(path.read_bytes()).hexdigest()
    assert digest == "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83"
    about = (path.parent / "README.md").read_text(encoding="utf-8")
    assert digest in about
    assert "https://creativecommons.org/licenses/by-sa/3.0/" in about


def test_it_tells_languages():
    pytest.importorskip("fasttext")
    found = FastTextIdentifier().identify(["The bank raised its rates again.", "Sie saßen am Ufer des Flusses."])
    assert [code for code, _ in found] == ["en", "de"]


def test_nothing_is_recorded_of_it():
    assert list(IdentifyLanguage().uses()) == []
    assert [model.id for model in IdentifyLanguage(model="mine.ftz").uses()] == ["mine.ftz"]
