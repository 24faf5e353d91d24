"""What is said to have been chosen is what is stored; what is said against a word is what the rules say."""

import json

import pytest

from corpusgen.corpus.triples.stages import ABSURD
from corpusgen.errors import CorpusgenError
from corpusgen.ops.inspect.explain import explain
from corpusgen.ops.inspect.judgements import CHOSEN
from corpusgen.ops.inspect.render import lines, replay_lines
from corpusgen.ops.inspect.replay import replay_group
from corpusgen.ops.inspect.stored import Stored
from corpusgen.store import Store
from tests.corpusgen.ops.inspect.support import change, copy, explain_one, replay_some, rows_of
from tests.testing.triple_builds import write_masked_lm, write_vectors


@pytest.fixture(scope="module")
def explained(kind, workshop):
    """Of all triples and rejects of a store: the stored row and its explanation."""
    chosen = [Stored(kind, table, row) for table in ("triples", "rejects") for row in rows_of(kind, table)]
    return [(stored, explain(stored, workshop)) for stored in chosen]


def triples_of(explained):
    return [(stored.row, found) for stored, found in explained if stored.is_triple]


def test_there_are_triples_to_explain(explained):
    assert len(triples_of(explained)) >= 5


def test_what_is_explained_is_what_is_stored(explained):
    for stored, found in explained:
        assert found.differences == []
        assert found.outcome == ("triple" if stored.is_triple else "reject")


def test_the_chosen_negative_is_the_stored_one(explained):
    for row, found in triples_of(explained):
        chosen = found.negative.chosen
        assert chosen.word == row["negative_word"].lower()
        assert chosen.probability == pytest.approx(row["negative_probability"], abs=2e-5)
        assert chosen.cosine == pytest.approx(row["negative_cosine"], abs=2e-5)


def test_the_chosen_positive_is_the_stored_one_or_the_aligned_word_stays(explained):
    for row, found in triples_of(explained):
        chosen = found.positive.chosen
        if row["positive_rule"] == "aligned":
            assert chosen is None
            aligned = next(word for word in found.alignment if word.verdict == CHOSEN)
            assert (aligned.word, aligned.start) == (row["positive_word"], row["positive_start"])
            assert aligned.cosine == pytest.approx(row["positive_cosine"], abs=2e-5)
        else:
            assert chosen.word == row["positive_word"].lower()
            assert chosen.probability == pytest.approx(row["positive_probability"], abs=2e-5)


def test_at_most_one_word_is_chosen_and_every_other_has_a_reason(explained):
    for _, found in explained:
        for judged in (found.alignment, *(choice.candidates for choice in (found.positive, found.negative) if choice)):
            verdicts = [word.verdict for word in judged or ()]
            assert verdicts.count(CHOSEN) <= 1
            assert all(verdicts)


def test_all_words_that_the_model_predicts_are_there(explained):
    for _, found in explained:
        if found.negative and not found.negative.note:
            probabilities = [candidate.probability for candidate in found.negative.candidates]
            assert probabilities == sorted(probabilities, reverse=True)
            assert len(probabilities) >= 30


def test_a_reject_without_a_negative_says_of_every_word_why_not(explained):
    for stored, found in explained:
        if stored.row.get("reason") == "no negative word":
            assert found.negative.chosen is None
        if stored.row.get("reason") == "no aligned word":
            assert CHOSEN not in [word.verdict for word in found.alignment]
            assert found.negative is None


def test_an_improbable_word_of_the_paraphrase_is_told_where_it_is_the_reason(explained):
    for stored, found in explained:
        improbable = [word for word in found.new_words if word.improbable]
        if stored.is_triple:
            assert not improbable
        if stored.row.get("reason") == ABSURD:
            assert improbable
        for word in found.new_words:
            assert word.word in found.paraphrase
            assert f"new word  {word.word} {word.probability:.5f}" in "\n".join(lines(found))


def test_taken_words_name_another_word_of_the_sentence(explained):
    for stored, found in explained:
        for word in found.alignment or ():
            assert word.taken_by is None or word.taken_by in stored.row["text"]
            if word.taken_by is not None:
                assert word.verdict == CHOSEN or word.taken_by != stored.row["target"]


def test_the_terminal_tells_sentence_words_models_and_unit(explained):
    for stored, found in explained[:3] + explained[-3:]:
        text = "\n".join(lines(found))
        start, end = stored.row["target_start"], stored.row["target_end"]
        assert f"[{stored.row['text'][start:end]}]" in text
        assert stored.row["unit"] in text
        assert "sha256" in text
        assert found.unit["event"]["unit"] == stored.row["unit"]
        assert found.unit["worker"]


def test_a_planted_change_is_named(made, tmp_path):
    store = copy(made, tmp_path / "copy")
    changed = change(store, "triples", lambda row: {"negative_word": "planted"})
    found = explain_one(store.url, changed["id"])
    assert [difference[:2] for difference in found.differences] == [("negative_word", "planted")]


def test_a_word_instead_of_an_id(made):
    word = rows_of(made, "triples")[0]["target"]
    assert explain_one(made.url, word=word.upper()).stored["target"].lower() == word.lower()
    with pytest.raises(CorpusgenError, match="no triple and no reject has the target 'zebra'"):
        explain_one(made.url, word="zebra")


def test_another_or_an_absent_model_is_refused(made, tmp_path):
    row = rows_of(made, "triples")[0]
    corpus = made.corpus()

    def with_model(name, path):
        store = copy(made, tmp_path / f"store-{path.name}", lambda file: file == "corpus.json")
        section, key = {"vectors": ("vectors", "path"), "masked": ("masked", "model")}[name]
        settings = {**corpus["settings"], section: {**corpus["settings"][section], key: str(path)}}
        models = {**corpus["models"], name: {**corpus["models"][name], "id": str(path)}}
        store.files.write("corpus.json", json.dumps({**corpus, "settings": settings, "models": models}).encode())
        return store.url

    with pytest.raises(CorpusgenError, match=r"not on this machine: .*gone\.vec"):
        explain_one(with_model("vectors", tmp_path / "gone.vec"), row["id"])
    other = tmp_path / "other.vec"
    write_vectors(other, dimension=5)
    with pytest.raises(CorpusgenError, match=r"(?s)these models differ .*vectors: .* recorded, .* here"):
        explain_one(with_model("vectors", other), row["id"])
    write_masked_lm(tmp_path / "lm")
    (tmp_path / "lm" / "more.txt").write_text("not there before")
    with pytest.raises(CorpusgenError, match=r"masked: .* recorded"):
        explain_one(with_model("masked", tmp_path / "lm"), row["id"])


def test_rejects_and_triples_are_replayed_together(kind, workshop):
    chosen = [Stored(kind, table, row) for table in ("rejects", "triples") for row in rows_of(kind, table)]
    assert all(one.same for one in replay_group(chosen, workshop))


def test_the_command(made, command):
    row = rows_of(made, "triples")[0]
    found = command("explain", made.url, row["id"], "--target", row["target"], "--json")
    assert found.code == 0, found.err
    told = json.loads(found.out)
    assert told["stored"]["id"] == row["id"]
    chosen = [candidate["word"] for candidate in told["negative"]["candidates"] if candidate["verdict"] == CHOSEN]
    assert chosen == [row["negative_word"].lower()]
    wrong = command("explain", made.url, row["id"], "--target", "zebra")
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err.startswith("corpusgen: ")
    assert command("explain", made.url).code == 2


def test_a_store_on_s3_is_explained_from_there(made, s3_root):
    store = copy(made, s3_root)
    row = rows_of(store, "triples")[-1]
    found = explain_one(s3_root, row["id"])
    assert (found.store, found.differences) == (Store.at(s3_root).url, [])


def test_a_store_that_is_being_written_is_explained_as_far_as_it_is(made, tmp_path):
    units = [commit.unit for commit in made.pass_store("generate").commits()]
    rows = {row["unit"]: row for row in rows_of(made, "triples")}
    there, missing = rows[units[0]], rows[units[-1]]
    store = copy(made, tmp_path / "half", lambda path: path == f"generate/commits/{missing['unit']}.json")
    assert explain_one(store.url, there["id"]).differences == []
    with pytest.raises(CorpusgenError, match=f"no triple and no reject has the id {missing['id']}"):
        explain_one(store.url, missing["id"])


def with_dtype(made, root, dtype):
    """The same store as if it had been made with such numbers."""
    store, corpus = copy(made, root, lambda path: path == "corpus.json"), made.corpus()
    masked = {**corpus["settings"]["masked"], "dtype": dtype}
    settings = {**corpus["settings"], "masked": masked}
    store.files.write("corpus.json", json.dumps({**corpus, "settings": settings}).encode())
    return store


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_without_a_gpu_a_store_of_one_is_explained_in_float32_and_that_is_said(made, tmp_path, monkeypatch, dtype):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    store = with_dtype(made, tmp_path / "store", dtype)
    found = explain_one(store.url, rows_of(store, "triples")[0]["id"])
    assert found.differences == []
    assert f"masked.dtype is {dtype}, but float32 is used here" in "\n".join(lines(found))
    assert "float32 is used here" in "\n".join(replay_lines(replay_some(store.url, 2)))
    assert explain_one(made.url, rows_of(store, "triples")[0]["id"]).note is None


def test_the_matrix_shows_the_words_beside_the_target_and_how_near_takers_are(explained):
    seen = 0
    for stored, found in explained:
        if found.alignment is None:
            continue
        matrix, row = found.matrix, stored.row
        assert list(matrix.columns) == [word.word for word in found.alignment]
        of_target = next(line for line in matrix.rows if line.start == row["target_start"])
        assert list(of_target.cosines) == [word.cosine for word in found.alignment]
        text = "\n".join(lines(found))
        for column, (word, taker) in enumerate(zip(found.alignment, matrix.takers, strict=True)):
            assert (taker is None) == (word.taken_by is None)
            if taker is not None:
                seen += 1
                rows = [line for line in matrix.rows if line.word == word.taken_by]
                assert taker in [line.cosines[column] for line in rows]
                assert taker == max(line.cosines[column] for line in matrix.rows)
                assert f"taken by {word.taken_by!r} ({taker:.5f})" in text
    assert seen or all(found.alignment is None for _, found in explained)
