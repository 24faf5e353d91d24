"""Building with another store's units and translations: the same bytes as from scratch, and nothing is done twice."""

import json
import shutil
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForMaskedLM

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.corpus.paraphrases.remembered import OldTranslations, Remembered
from corpusgen.corpus.paraphrases.stage import RoundTrip
from corpusgen.corpus.recipes.words import RECIPE
from corpusgen.engine import LocalExecutor
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.errors import CorpusgenError, StoreError
from corpusgen.ops.merge import merge
from corpusgen.store import CommittedTable, Plan, Store
from corpusgen.store.check import verify
from corpusgen.store.parts import read_part
from tests.corpusgen.ops.inspect.support import copy, rows_of
from tests.corpusgen.ops.report.support import commit_unit, plan_generate, reject, start, triple
from tests.testing import triple_builds as support

TRANSLATION = {**support.ROUND_TRIP["translation"], "identify": False}
RULES = {**support.ROUND_TRIP["rules"], "negative_max_cosine": 0.02}
OTHER_RULES = {**RULES, "negative_max_cosine": 0.2, "enrich_min_cosine": 0.4}
UNITS = 3  # of 20 targets


@dataclass(frozen=True)
class Dictionary:
    """A translator that notes in a file what it is asked: whichever process asks, it can be counted."""

    notes: str
    source: str

    def translate(self, texts):
        with open(self.notes, "a") as file:  # lines this short are appended as a whole
            file.writelines(json.dumps([self.source, text]) + "\n" for text in texts)
        return [self._there(text) if self.source == "en" else self._back(text) for text in texts]

    def _there(self, text):
        return "" if "castle" in text else f"Eis {text.upper()}"

    def _back(self, text):
        text = text.removeprefix("Eis ").lower().replace("river", "stream")
        return text[:40] if "island" in text else f"So {text}"


@dataclass
class NotedRoundTrip(RoundTrip):
    """The stage itself, with that translator."""

    notes: str = field(default="", metadata={"content": False})

    def _open(self, side, settings, threads):
        return Dictionary(self.notes, settings.source)


class Made(NamedTuple):
    """A store, what the translators were asked for it, and what was said."""

    store: Store
    asked: Counter
    said: list


def make(folder, root, reuse=None, executor=None, until=None, **others):
    """Build with translators that take notes."""
    notes = folder / "notes"
    notes.write_text("")

    generate = RECIPE.passes["generate"]

    def noted(config, store):
        return [
            NotedRoundTrip(**{f.name: getattr(stage, f.name) for f in fields(stage)}, notes=str(notes))
            if isinstance(stage, RoundTrip)
            else stage
            for stage in generate.stages(config, store)
        ]

    ours = {**support.ROUND_TRIP, "translation": TRANSLATION, "rules": RULES}
    config = BuildConfig.model_validate({**support.settings(folder, **ours), **others, "store": str(root)})
    said = []
    with patch.dict(RECIPE.passes, generate=replace(generate, stages=noted)):
        store = build(config, executor or LocalExecutor(), until, reuse=reuse, say=said.append)
    asked = Counter(json.loads(line)[0] for line in notes.read_text().splitlines())
    return Made(store, asked, said)


def committed(store):
    """Every file that a commit makes real, with its bytes."""
    commits = (commit for pass_store in store.passes() for commit in pass_store.commits())
    return {part.path: read_part(store.files, part) for commit in commits for part in commit.files()}


def other_model(folder):
    model = AutoModelForMaskedLM.from_pretrained(folder / "masked")
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.mul_(1.5)
    shutil.copytree(folder / "masked", folder / "other")
    model.save_pretrained(folder / "other")
    return {"model": str(folder / "other")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reuse")


@pytest.fixture(scope="module")
def old(folder):
    made = make(folder, folder / "old")
    targets = sum(CommittedTable(made.store, "generate", name).num_rows for name in ("triples", "rejects"))
    assert made.asked["en"] == targets == UNITS * 20
    return made.store


@pytest.fixture(scope="module")
def changed(folder, old):
    return {"rules": OTHER_RULES, "masked": other_model(folder)}


@pytest.fixture(scope="module")
def expected(folder, changed):
    """With the changed settings, from scratch."""
    made = make(folder, folder / "scratch", **changed)
    assert made.asked["en"] == UNITS * 20
    return made.store


def test_the_old_store_has_every_kind_of_row_that_can_be_remembered(old):
    assert {row["positive_rule"] for row in rows_of(old, "triples")} == {"aligned", "enriched"}
    reasons = {row["reason"] for row in rows_of(old, "rejects")}
    assert reasons >= {"empty translation", "truncated translation on the way back", "no negative word"}
    enriched = [row for row in rows_of(old, "triples") if row["positive_rule"] == "enriched"]
    paraphrases = {row["id"]: row["paraphrase"] for row in rows_of(old, "paraphrases")}
    assert paraphrases.keys() == {row["id"] for row in enriched}
    assert all(paraphrases[row["id"]] == Dictionary("", "pt")._back(row["pivot"]) for row in enriched)


def assert_as_from_scratch(made, expected):
    assert committed(made.store) == committed(expected)
    assert all(check.ok for check in verify(made.store))


def test_other_negatives_and_another_model_ask_no_translator(folder, old, changed, expected, root):
    made = make(folder, root, old.url, **changed)
    assert not made.asked
    assert_as_from_scratch(made, expected)
    assert rows_of(made.store, "triples") != rows_of(old, "triples")
    assert "harvest: 4 of 4 units reused from" in made.said[0]
    assert f"generate: translations of 60 of 60 targets reused from {old.url}" in made.said[-1]


def test_the_old_store_may_be_on_s3(folder, old, changed, expected, s3_root, tmp_path):
    there = copy(old, s3_root)
    made = make(folder, tmp_path / "new", there.url, **changed)
    assert not made.asked
    assert_as_from_scratch(made, expected)


@pytest.fixture
def half(old, tmp_path):
    """The old store while it was being written: a unit of sentences and a unit of triples are not there yet."""
    harvest, generate = (old.pass_store(name).plan().units for name in ("harvest", "generate"))
    missing = tuple(f"commits/{unit.id}.json" for unit in (harvest[1], generate[0]))
    return copy(old, tmp_path / "half", lambda path: path.endswith(missing))


def assert_only_the_rest_is_made(made, expected):
    assert made.asked["en"] == 20
    assert_as_from_scratch(made, expected)
    assert "harvest: 3 of 4 units" in made.said[0]


def test_of_a_store_that_is_being_written_what_is_there_is_used_and_the_rest_is_made(
    folder, half, changed, expected, tmp_path
):
    assert_only_the_rest_is_made(make(folder, tmp_path / "new", half.url, **changed), expected)


@pytest.mark.slow
def test_and_so_it_is_on_ray(folder, half, changed, expected, tmp_path):
    limits = {"min_workers": 2, "max_workers": 2}
    config = {**changed, "run": {"workers": {"translate": limits}}}
    with ray_cluster("local"):
        executor = RayExecutor(BuildConfig.model_validate({**support.settings(folder), **config}).run)
        made = make(folder, tmp_path / "new", half.url, executor, **config)
    assert_only_the_rest_is_made(made, expected)


def without_paraphrases(old, root):
    """As an earlier version left it: there was no such table."""
    store = copy(old, root, lambda path: path.startswith("generate/commits") or path == "generate/plan.json")
    generate = old.pass_store("generate")
    plan = generate.plan()
    tables = {name: schema for name, schema in plan.tables.items() if name != "paraphrases"}
    store.pass_store("generate").ensure_plan(Plan(plan.fingerprint, plan.units, tables))
    for commit in generate.commits():
        parts = {name: part for name, part in commit.parts.items() if name in tables}
        store.files.create(f"generate/commits/{commit.unit}.json", replace(commit, parts=parts).encode())
    return store


def test_of_a_store_of_an_earlier_version_only_enriched_paraphrases_are_translated_again(
    folder, old, changed, expected, tmp_path
):
    earlier = without_paraphrases(old, tmp_path / "earlier")
    made = make(folder, tmp_path / "new", earlier.url, **changed)
    assert made.asked == {"pt": len(rows_of(old, "paraphrases"))}
    assert_as_from_scratch(made, expected)


def test_a_store_of_an_earlier_version_is_finished_as_it_was_begun(folder, old, tmp_path):
    earlier = without_paraphrases(old, tmp_path / "earlier")
    unit = earlier.pass_store("generate").plan().units[1].id
    earlier.files.delete(f"generate/commits/{unit}.json")
    made = make(folder, tmp_path / "earlier")
    assert made.asked["en"] == 20
    assert all(check.ok for check in verify(earlier))
    assert "paraphrases" not in earlier.pass_store("generate").plan().tables
    assert rows_of(earlier, "triples") == rows_of(old, "triples")


def test_a_killed_build_goes_on_and_another_sample_uses_the_sentences_it_shares(folder, old, changed, tmp_path):
    until = make(folder, tmp_path / "new", old.url, until="sample", **changed)
    assert until.store.pass_store("sample").committed()
    assert not make(folder, tmp_path / "new", old.url, **changed).asked
    other = {"sample": {"size": 90, "vocabulary": 60}, "generate": {"unit_targets": 7}, "seed": 3}
    before = {row["id"] for table in ("triples", "rejects") for row in rows_of(old, table)}
    made = make(folder, tmp_path / "larger", old.url, **other)
    ids = {row["id"] for table in ("triples", "rejects") for row in rows_of(made.store, table)}
    assert made.asked["en"] == len(ids - before) < len(ids)
    assert f"generate: translations of {len(ids & before)} of {len(ids)} targets reused from" in made.said[-1]
    assert_as_from_scratch(made, make(folder, tmp_path / "larger from scratch", **other).store)


class Suspicious:
    """Takes what has a harbour in it for Dutch, probably; in capitals, as on the way there, it sees none."""

    def identify(self, texts):
        return [("nl", 0.8) if "harbour" in text else ("", 0.0) for text in texts]


def test_another_threshold_of_faults_is_applied_to_the_old_translations(folder, old, tmp_path):
    """What is wrong with a translation is judged anew: the settings of that are not the translator's."""
    judged = {**TRANSLATION, "identify": True}
    with patch("corpusgen.corpus.paraphrases.stage.open_identifier", lambda *_: Suspicious()):
        strict = make(folder, tmp_path / "strict", old.url, translation={**judged, "threshold": 0.7})
        scratch = make(folder, tmp_path / "scratch", translation={**judged, "threshold": 0.7})
        lax = make(folder, tmp_path / "lax", strict.store.url, translation={**judged, "threshold": 0.9})
    assert not strict.asked
    assert not lax.asked

    def judgements(store):
        rows = [row for table in ("triples", "rejects") for row in rows_of(store, table)]
        return {row["id"]: row.get("reason") for row in rows}

    foreign = "translation in another language on the way back"
    before, anew = judgements(old), judgements(strict.store)
    changed = {id_ for id_ in before if anew[id_] != before[id_]}
    texts = {row["id"]: row["text"] for table in ("triples", "rejects") for row in rows_of(old, table)}
    assert changed
    assert all(anew[id_] == foreign and "harbour" in texts[id_] for id_ in changed)
    assert judgements(lax.store) == before
    assert_as_from_scratch(strict, scratch.store)


def test_with_nothing_changed_the_triples_themselves_are_taken_over(folder, old, tmp_path):
    made = make(folder, tmp_path / "new", old.url)
    assert "generate: 3 of 3 units" in made.said[-1]
    assert committed(made.store) == committed(old)
    ours, theirs = (list(store.pass_store("generate").commits()) for store in (made.store, old))
    assert ours == theirs


def test_with_other_translators_only_the_sentences_are_and_that_is_said(folder, old, tmp_path):
    other = {**TRANSLATION, "forward": {**TRANSLATION["forward"], "max_tokens": 100}}
    made = make(folder, tmp_path / "new", old.url, translation=other)
    assert made.asked["en"] == 60
    assert "harvest: 4 of 4 units" in made.said[0]
    assert f"no translations reused from {old.url}: translation.forward.max_tokens: 256 there, 100 now" in made.said[-1]


def test_translations_that_were_chosen_among_several_are_not_reused(folder, old, tmp_path):
    several = {**TRANSLATION, "others": [{name: TRANSLATION[name] for name in ("pivot", "forward", "back")}]}
    made = make(folder, tmp_path / "new", old.url, translation=several)
    assert made.asked["en"] == 2 * 60
    assert "no translations reused" in made.said[-1]
    assert "translation.others: null there" in made.said[-1]
    again = make(folder, tmp_path / "same", made.store.url, translation=several)
    assert "generate: 3 of 3 units" in again.said[-1]
    assert not again.asked
    changed = make(folder, tmp_path / "changed", made.store.url, translation=several, rules=OTHER_RULES)
    assert "only the chosen ones of several hypotheses are stored" in changed.said[-1]
    assert changed.asked["en"] == 2 * 60


def test_with_other_filters_only_the_translations_are_and_that_is_said(folder, old, tmp_path):
    made = make(folder, tmp_path / "new", old.url, filters={"min_words": 10})
    assert not made.asked
    assert made.said[0].endswith(f"nothing reused from {old.url}: filters.min_words: 15 there, 10 now")


def test_when_nothing_fits_it_is_refused_with_the_settings_in_the_way(folder, old, tmp_path):
    other = {**TRANSLATION, "back": {**TRANSLATION["back"], "beam": 2}}
    with pytest.raises(CorpusgenError) as error:
        make(folder, tmp_path / "new", old.url, translation=other, filters={"max_words": 30})
    assert "nothing can be reused" in str(error.value)
    assert "its sentences: filters.max_words: 50 there, 30 now" in str(error.value)
    assert "its translations: translation.back.beam: 5 there, 2 now" in str(error.value)
    assert not (tmp_path / "new").exists()


def test_source_files_that_have_changed_are_named_as_the_reason(folder, old, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text((folder / "text.txt").read_text())
    source = {"kind": "text", "paths": [str(text)], "unit_bytes": 4000}
    same = old.corpus()["settings"]["source"]
    before = copy(old, tmp_path / "before", lambda path: path == "corpus.json")
    recorded = {**old.corpus()["settings"], "source": {**same, **source}}
    before.ensure_corpus({**old.corpus(), "settings": recorded, "models": {}})
    with pytest.raises(CorpusgenError, match=r"source files have changed(.|\n)*models.translation.back: null there"):
        make(folder, tmp_path / "new", before.url, source=source)


def test_a_model_that_is_another_now_is_no_obstacle_to_what_it_did_not_make(folder, old, tmp_path):
    corpus = old.corpus()
    before = copy(old, tmp_path / "before", lambda path: path == "corpus.json")
    before.ensure_corpus({**corpus, "models": {**corpus["models"], "vectors": {"id": "others", "sha256": "ff"}}})
    made = make(folder, tmp_path / "new", before.url)
    assert not made.asked
    assert "generate: translations of 60 of 60 targets" in made.said[-1]
    assert committed(made.store) == committed(old)


def test_triples_are_made_again_when_the_words_of_the_vectors_have_changed(folder, old, tmp_path):
    matrix, words = tmp_path / "matrix.npy", tmp_path / "words.txt"
    rows = [line.split() for line in Path(support.write_vectors(tmp_path / "v.vec")).read_text().splitlines()[1:]]
    np.save(matrix, np.array([row[1:] for row in rows], np.float32))
    words.write_text("\n".join(row[0] for row in rows) + "\n")
    vectors = {"vectors": {"path": str(matrix), "words": str(words)}}
    before = make(folder, tmp_path / "before", **vectors).store
    words.write_text("\n".join(row[0] for row in reversed(rows)) + "\n")  # other vectors for the same words
    scratch = make(folder, tmp_path / "from scratch", **vectors).store
    made = make(folder, tmp_path / "new", before.url, **vectors)
    assert_as_from_scratch(made, scratch)
    assert not any(line.startswith("generate") and "units reused from" in line for line in made.said)


def test_a_damaged_part_is_not_taken_over(folder, old, tmp_path):
    damaged = copy(old, tmp_path / "damaged")
    part = CommittedTable(damaged, "harvest", "sentences").parts[0]
    damaged.files.write(part.path, b"not what it was")
    with pytest.raises(StoreError, match="is damaged: its sha256 is not the committed one; run `corpusgen verify"):
        make(folder, tmp_path / "new", damaged.url)


def test_a_merged_store_gives_its_translations(folder, old, changed, tmp_path):
    merge(str(tmp_path / "merged"), [old.url])
    made = make(folder, tmp_path / "new", str(tmp_path / "merged"), **changed)
    assert made.asked == {"pt": len(rows_of(old, "paraphrases"))}


def test_the_command_takes_a_store_and_names_what_is_wrong_with_one(folder, old, tmp_path, command):
    path = tmp_path / "my.yaml"
    config = BuildConfig.model_validate({**support.settings(folder), "store": str(tmp_path / "new")})
    path.write_text(config.to_yaml())
    ended = command("build", path, "--executor", "local", "--reuse", old.url)
    assert ended.code == 0
    assert f"harvest: 4 of 4 units reused from {old.url}" in ended.out
    for reuse, message in (
        (tmp_path / "new", "this is the store being built; to resume it, leave out --reuse"),
        (tmp_path / "nowhere", "no corpus here"),
    ):
        ended = command("build", path, "--executor", "local", "--reuse", reuse)
        assert (ended.code, ended.err.count("\n")) == (1, 1)
        assert message in ended.err


# -------------------------------------------------------------------- looking up


@settings(max_examples=20)  # every unit is written durably
@given(units=st.lists(st.lists(st.integers(0, 40), max_size=6), max_size=6), asked=st.lists(st.integers(0, 60)))
def test_every_committed_translation_is_found_and_no_other(tmp_path_factory, units, asked):
    store = start(str(tmp_path_factory.mktemp("known") / "store"))
    generate = plan_generate(store, len(units))
    known = {}
    for number, ids in enumerate(units):
        triples = [triple(id_, text=f"text {id_}", pivot=f"pivot {id_}") for id_ in ids if id_ % 3]
        rejects = [
            reject(id_, text=f"text {id_}", pivot=f"pivot {id_}", paraphrase=None) for id_ in ids if id_ % 3 == 0
        ]
        commit_unit(generate, number, triples, rejects)
        known |= {t["text"]: Remembered(t["pivot"], t["positive"]) for t in triples}
        known |= {r["text"]: Remembered(r["pivot"], None) for r in rejects}
    texts = [f"text {id_}" for id_ in asked]
    found = OldTranslations(store).of(texts)
    assert found == {text: known[text] for text in texts if text in known}


def test_what_is_kept_in_memory_is_bounded_and_right_in_whatever_order_units_are_asked_about(tmp_path: Path):
    store = start(str(tmp_path / "store"))
    generate = plan_generate(store, 12)
    for number in range(12):
        commit_unit(generate, number, [triple(number, text=f"text {number}", pivot=f"pivot {number}")])
    translations = OldTranslations(store)
    for number in [*range(12), *reversed(range(12)), 7, 7]:
        assert translations.of([f"text {number}", "unknown"])[f"text {number}"].pivot == f"pivot {number}"
        assert len(translations._recent) <= 8
