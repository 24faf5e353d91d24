"""Scores are those computed by hand; each text is encoded once; nothing left out is forgotten."""

import json
import warnings

import numpy as np
import pytest

from corpusgen.errors import ConfigError
from distiller.evaluation.metrics import bootstrap, pearson, spearman
from distiller.evaluation.tasks import find_tasks

FIRST = np.array([1.0, 0.0], np.float32)


class FakeEncoder:
    """Gives texts named in `similar` that similarity to all others, which are alike. Some it cannot encode."""

    def __init__(self, similar, unable=()):
        self.similar, self.unable = similar, unable
        self.calls = []

    def words(self, texts, spans):
        return self._encoded(texts, list(zip(texts, spans, strict=True)))

    def sentences(self, texts):
        return self._encoded(texts, list(texts))

    def _encoded(self, texts, asked):
        self.calls.append(asked)
        meaning = np.array([self._vector(text) for text in texts])
        reasons = ["too long" if text in self.unable else None for text in texts]
        return {"meaning": meaning, "context": np.ones_like(meaning)}, reasons

    def _vector(self, text):
        if text in self.unable:
            return np.zeros(2, np.float32)
        cosine = self.similar.get(text, 1.0)
        return np.array([cosine, np.sqrt(1 - cosine**2)], np.float32)


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_wic(folder, split, similarities, answers=None):
    """Sentences, and how similar an encoder must find them."""
    names = [f"x {split}{number}" for number in range(len(similarities))]
    write(folder / "wic" / split / f"{split}.data.txt", *(f"x\tN\t0-0\tx first\t{name}" for name in names))
    if answers is not None:
        write(folder / "wic" / split / f"{split}.gold.txt", *answers)
    return dict(zip(names, similarities, strict=True))


def run(folder, encoder, *names):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [result for task in find_tasks(folder, names or None) for result in task.run(encoder)]


def meaning(result):
    return result.scores["meaning"]


# --- decisions ---


def test_the_threshold_is_chosen_on_dev_and_scored_on_test(tmp_path):
    # On dev .55 is right for all; at .55 the test set has one right of three, at its own best, .25, all.
    similar = write_wic(tmp_path, "dev", [0.5, 0.6, 0.7], "FTT")
    similar |= write_wic(tmp_path, "test", [0.2, 0.3, 0.4], "FTT")
    similar |= write_wic(tmp_path, "train", [0.1, 0.9], "TF")
    encoder = FakeEncoder(similar)
    result, area = run(tmp_path, encoder)
    assert (result.task, result.metric, result.items, result.second) == ("WiC test", "accuracy", 3, False)
    assert meaning(result).threshold == pytest.approx(0.55)
    assert meaning(result).value == pytest.approx(1 / 3)
    assert result.similarities["meaning"] == pytest.approx([0.2, 0.3, 0.4])
    assert result.gold.tolist() == [0, 1, 1]
    assert result.paper == {"baseline": 0.6657, "meaning": 0.6729, "context": 0.6221}
    assert result.paper_items == ""
    assert not any("train" in text for text, _ in encoder.calls[0])
    assert (area.task, area.metric, area.items, area.second) == ("WiC test", "AUC", 3, True)
    assert (meaning(area).value, meaning(area).threshold, area.paper) == (1, None, {})
    assert area.label != result.label


def test_thresholds_never_see_the_scored_items(tmp_path):
    similar = write_wic(tmp_path, "dev", [0.505, 0.6, 0.7], "FTT")
    before = write_wic(tmp_path, "test", [0.2, 0.3, 0.4], "FTT")
    first, _ = run(tmp_path, FakeEncoder(similar | before))
    after = write_wic(tmp_path, "test", [0.9, 0.1, 0.8], "TFT")
    second, _ = run(tmp_path, FakeEncoder(similar | after))
    assert meaning(first).threshold == meaning(second).threshold
    assert meaning(first).value != meaning(second).value


def test_without_gold_of_the_test_set_dev_is_scored_with_a_threshold_of_train(tmp_path):
    similar = write_wic(tmp_path, "train", [0.1, 0.9], "FT")
    similar |= write_wic(tmp_path, "dev", [0.6, 0.05], "TF")
    similar |= write_wic(tmp_path, "test", [0.5, 0.6])
    result, area = run(tmp_path, FakeEncoder(similar))
    assert (result.task, meaning(result).threshold, meaning(result).value) == ("WiC dev", pytest.approx(0.5), 1)
    assert (area.task, meaning(area).value) == ("WiC dev", 1)
    assert (result.paper["meaning"], result.paper_items) == (0.6729, "test set")


def test_a_single_set_cannot_be_decided(tmp_path):
    write_wic(tmp_path, "dev", [0.5], "T")
    with pytest.raises(ConfigError, match=r"dev and test sets.*\['dev'\]"):
        find_tasks(tmp_path)


@pytest.mark.parametrize("folder", ["paws_wiki", "paws"])
@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
def test_paws_is_decided_by_whole_sentences(tmp_path, folder, suffix, separator):
    heads = separator.join(["id", "sentence1", "sentence2", "label"])
    for split in ("dev", "test"):
        rows = [["0", "first", f"{split} a", "1"], ["1", "first", f"{split} b", "0"]]
        write(tmp_path / folder / f"{split}{suffix}", heads, *map(separator.join, rows))
    encoder = FakeEncoder({"dev a": 0.8, "dev b": 0.7, "test a": 0.76, "test b": 0.6})
    result, area = run(tmp_path, encoder)
    assert (result.task, meaning(result).threshold, meaning(result).value) == ("PAWS-Wiki test", pytest.approx(0.75), 1)
    assert (area.task, area.metric, meaning(area).value) == ("PAWS-Wiki test", "AUC", 1)
    assert result.paper == {"baseline": 0.5576, "meaning": 0.5671}
    assert sorted(encoder.calls[0]) == ["dev a", "dev b", "first", "test a", "test b"]


def write_mclwic(folder, name, similarities, answers):
    entries = [
        {"id": f"{name}.{number}", "sentence1": "x first", "sentence2": f"x {name} {number}", "ranges1": "0-1"}
        | ({"ranges2": "0-1"} if name.startswith("test") else {"start2": "0", "end2": "1"})
        for number in range(len(similarities))
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.data").write_text(json.dumps(entries))
    tags = [{"id": entry["id"], "tag": tag} for entry, tag in zip(entries, answers, strict=True)]
    (folder / f"{name}.gold").write_text(json.dumps(tags))
    return {entry["sentence2"]: value for entry, value in zip(entries, similarities, strict=True)}


def test_mclwic_takes_the_threshold_of_the_second_language_or_says_of_which(tmp_path):
    folder = tmp_path / "mclwic"
    similar = write_mclwic(folder / "dev", "dev.en-en", [0.2, 0.3], "FT")
    similar |= write_mclwic(folder / "dev", "dev.fr-fr", [0.6, 0.7], "FT")
    similar |= write_mclwic(folder / "test", "test.en-fr", [0.66, 0.5], "TF")
    similar |= write_mclwic(folder / "test", "test.en-zh", [0.66, 0.5], "TF")
    results = {result.label: meaning(result) for result in run(tmp_path, FakeEncoder(similar))}
    assert list(results) == [
        "MCL-WiC test.en-fr (threshold of dev.fr-fr)",
        "MCL-WiC test.en-fr, AUC",
        "MCL-WiC test.en-zh (threshold of dev.en-en)",
        "MCL-WiC test.en-zh, AUC",
    ]
    french, _, chinese, area = results.values()
    found = (french.threshold, french.value, chinese.threshold, chinese.value, area.value)
    assert found == pytest.approx((0.65, 1, 0.25, 0.5, 1))


def test_dev_sets_of_mclwic_alone_take_the_threshold_of_another(tmp_path):
    similar = write_mclwic(tmp_path / "mclwic", "dev.en-en", [0.2, 0.3], "FT")
    with pytest.raises(ConfigError, match="another name"):
        find_tasks(tmp_path)
    similar |= write_mclwic(tmp_path / "mclwic", "dev.fr-fr", [0.6, 0.7], "FT")
    (tmp_path / "mclwic" / "test.en-fr.data").write_text("[]")
    results = {one.task: meaning(one).threshold for one in run(tmp_path, FakeEncoder(similar)) if not one.second}
    assert results == {
        "MCL-WiC dev.en-en (threshold of dev.fr-fr)": pytest.approx(0.65),
        "MCL-WiC dev.fr-fr (threshold of dev.en-en)": pytest.approx(0.25),
    }


# --- correlations ---


def test_usim_and_scws_are_scored_by_rank(tmp_path):
    predicted, gold = [0.9, 0.5, 0.1, 0.3], [4, 5, 1, 2]
    uses = [(f"x first\t0\t{score}\tx.n 1", f"x {n}\t0\t{score}\tx.n 2") for n, score in enumerate(gold)]
    write(tmp_path / "usim" / "usim_en.txt", *(line for use in uses for line in use))
    rows = [f"{n}\tx\tn\tx\tn\t<b> x </b> first\t<b> x </b> {n}\t{score}\t1" for n, score in enumerate(gold)]
    write(tmp_path / "scws" / "ratings.txt", *rows)
    encoder = FakeEncoder({f"x {n}": value for n, value in enumerate(predicted)})
    usim, scws = run(tmp_path, encoder)
    # Ranks 4 3 1 2 and 3 4 1 2: 1 - 6 * 2 / (4 * 15).
    assert (usim.task, usim.metric, meaning(usim).value) == ("USim", "Spearman", pytest.approx(0.8))
    assert (scws.task, scws.metric, meaning(scws).value) == ("SCWS", "Spearman", pytest.approx(0.8))
    assert meaning(usim).low <= 0.8 <= meaning(usim).high
    assert usim.gold.tolist() == gold
    assert np.isnan(usim.scores["context"].value)
    assert usim.paper["meaning"] == 0.6305


def test_cosimlex_scores_changes_and_both_contexts(tmp_path):
    before, after, sim1, sim2 = [0.1, 0.5, 0.9], [0.6, 0.4, 0.2], [2.0, 5.0, 9.0], [7.0, 8.0, 1.0]

    def marked(number, context):
        return f"<strong>x</strong> {number} <strong>y</strong> {context}"

    rows = [
        f"x\ty\t{marked(n, 'a')}\t{marked(n, 'b')}\t{first}\t{second}"
        for n, (first, second) in enumerate(zip(sim1, sim2, strict=True))
    ]
    write(tmp_path / "cosimlex" / "cosimlex_en.csv", "word1\tword2\tcontext1\tcontext2\tsim1\tsim2", *rows)
    cosines = {f"x {n} y a": value for n, value in enumerate(before)}
    cosines |= {f"x {n} y b": value for n, value in enumerate(after)}

    class InOneText(FakeEncoder):
        def words(self, texts, spans):
            vectors = [
                FIRST if start == 0 else self._vector(text) for text, (start, _) in zip(texts, spans, strict=True)
            ]
            return {"meaning": np.array(vectors)}, [None] * len(texts)

    official, changed, each = run(tmp_path, InOneText(cosines))
    # (.5 * 5 - .1 * 3 + .7 * 8) / sqrt((.25 + .01 + .49) * (25 + 9 + 64)): about zero, as SemEval scores it.
    assert (official.task, official.metric, official.items) == ("CoSimLex-I", "uncentred Pearson", 3)
    assert meaning(official).value == pytest.approx(7.8 / np.sqrt(0.75 * 98))
    assert official.paper == {}
    assert (changed.task, changed.metric, changed.items) == ("CoSimLex-I by the paper's metric", "Pearson", 3)
    assert changed.paper["meaning"] == 0.7576
    assert changed.gold.tolist() == [5, 3, -8]
    assert changed.similarities["meaning"] == pytest.approx([0.5, -0.1, -0.7])
    assert meaning(changed).value == pytest.approx(float(pearson([0.5, -0.1, -0.7], [5, 3, -8])))
    assert (each.task, each.metric, each.items) == ("CoSimLex-II", "Spearman", 6)
    assert meaning(each).value == pytest.approx(float(spearman(before + after, sim1 + sim2)))


def test_a_year_of_sts_is_the_mean_of_its_sub_corpora(tmp_path):
    similar = {f"a{n}": n / 10 for n in range(5)} | {"b0": 0.1, "b1": 0.2, "b2": 0.3}
    write(tmp_path / "sts" / "2012" / "a.test.tsv", *(f"{n}\tfirst\ta{n}" for n in range(5)))
    write(tmp_path / "sts" / "2012" / "b.test.tsv", "3\tfirst\tb0", "2\tfirst\tb1", "\tfirst\tb1", "2.5\tfirst\tb2")
    write(tmp_path / "sts" / "2012" / "a.train.tsv", "1\tnever\tread")
    write(tmp_path / "sts" / "2016" / "a.test.tsv", *(f"{n}\tfirst\ta{n}" for n in range(5)))
    encoder = FakeEncoder(similar)
    first, last = run(tmp_path, encoder)
    # r = 1 and -.5.
    assert (first.task, first.metric, first.items) == ("STS 2012", "Pearson", 8)
    assert meaning(first).value == pytest.approx(0.25)
    assert [(part.task, meaning(part).value) for part in first.parts] == [
        ("STS 2012 a", pytest.approx(1)),
        ("STS 2012 b", pytest.approx(-0.5)),
    ]
    assert len(first.similarities["meaning"]) == len(first.gold) == 8
    assert (last.task, meaning(last).value, last.paper["meaning"]) == ("STS 2016", pytest.approx(1), 0.684)
    assert len(encoder.calls) == 1
    assert sorted(encoder.calls[0]) == sorted([*similar, "first"])


def test_sts_is_read_as_semeval_has_it(tmp_path):
    folder = tmp_path / "sts" / "2012"
    write(folder / "STS.input.surprise.a.txt", *(f"first\ta{n}" for n in range(4)), "first\tnever")
    write(folder / "STS.gs.surprise.a.txt", "0", "1", "", "3\t100", "")
    write(folder / "STS.gs.ALL.txt", "0", "1", "", "3", "")
    write(folder / "STS.input.b.txt", "first\tnever")
    write(folder / "b.test.tsv", *(f"{n}\tfirst\ta{n}" for n in range(4)))
    write(tmp_path / "sts" / "2016" / "STS2016.input.c-c.txt", *(f"first\ta{n}" for n in range(4)))
    write(tmp_path / "sts" / "2016" / "STS2016.gs.c-c.txt", "3", "2", "1", "0")
    encoder = FakeEncoder({f"a{n}": n / 10 for n in range(4)})
    first, last = run(tmp_path, encoder)
    assert [(part.task, part.items) for part in first.parts] == [("STS 2012 a", 3), ("STS 2012 b", 4)]
    assert [(skip.item, skip.reason) for skip in first.skipped] == [
        ("STS.input.surprise.a.txt:3", "it has no score"),
        ("STS.input.surprise.a.txt:5", "it has no score"),
    ]
    assert first.item_indices.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [1, 3]]
    assert [(part.task, meaning(part).value) for part in last.parts] == [("STS 2016 c-c", pytest.approx(-1))]
    assert "never" not in encoder.calls[0]


def test_both_parts_of_the_sts_benchmark_are_scored(tmp_path):
    for split in ("dev", "test"):
        rows = [f"g\tf\t2012\t1\t{score}\tfirst\t{split}{score}" for score in (1, 2, 3)]
        write(tmp_path / "stsb" / f"sts-{split}.csv", *rows)
    values = [0.3, 0.2, 0.1]
    encoder = FakeEncoder({f"{split}{n + 1}": values[n] for split in ("dev", "test") for n in range(3)})
    assert [(result.task, meaning(result).value) for result in run(tmp_path, encoder)] == [
        ("STS-B dev", pytest.approx(-1)),
        ("STS-B test", pytest.approx(-1)),
    ]


# --- what is left out ---


def test_items_without_a_vector_are_named_and_do_not_count(tmp_path):
    similar = write_wic(tmp_path, "dev", [0.5, 0.6, 0.9], "FTF")
    similar |= write_wic(tmp_path, "test", [0.2, 0.7, 0.8, 0.9], "FTTF")
    with (tmp_path / "wic" / "test" / "test.data.txt").open("a") as file:
        file.write("broken\n")
    with (tmp_path / "wic" / "test" / "test.gold.txt").open("a") as file:
        file.write("T\n")
    result, area = run(tmp_path, FakeEncoder(similar, unable=["x dev2", "x test3"]))
    assert (result.items, meaning(result).value) == (3, 1)
    assert (area.items, meaning(area).value, area.skipped) == (3, 1, [])  # they are named once
    assert len(result.similarities["meaning"]) == len(result.gold) == 3
    assert result.item_indices.tolist() == [[0, 0], [0, 1], [0, 2]]
    assert [(skip.item, skip.reason) for skip in result.skipped] == [
        ("test.data.txt:5", "1 columns instead of 5"),
        ("test.data.txt:4", "too long"),
        ("dev.data.txt:3", "for the threshold: too long"),
    ]


def test_a_context_without_a_vector_costs_the_change_and_one_of_two_similarities(tmp_path):
    rows = [
        f"x\ty\t<strong>x</strong> <strong>y</strong> {n}\t<strong>x</strong> <strong>y</strong>\t{n}\t5"
        for n in range(4)
    ]
    write(tmp_path / "cosimlex" / "cosimlex_en.csv", "word1\tword2\tcontext1\tcontext2\tsim1\tsim2", *rows, "broken")
    _, changed, each = run(tmp_path, FakeEncoder({}, unable=["x y 2"]))
    assert (changed.items, len(changed.skipped), each.items, len(each.skipped)) == (3, 2, 7, 3)


def test_sub_corpora_pass_on_what_they_left_out(tmp_path):
    write(tmp_path / "sts" / "2012" / "a.test.tsv", "1\tfirst\ta", "2\tfirst\tb", "x\tfirst\tc", "3\tfirst\td")
    (result,) = run(tmp_path, FakeEncoder({"a": 0.1, "b": 0.2}, unable=["d"]))
    assert [skip.item for skip in result.skipped] == ["a.test.tsv:3", "a.test.tsv:4"]
    assert result.parts[0].skipped == result.skipped


def test_vectors_that_are_not_finite_are_no_vectors(tmp_path):
    write(tmp_path / "sts" / "2012" / "a.test.tsv", "1\tfirst\ta", "2\tfirst\tb", "3\tfirst\tc")
    (result,) = run(tmp_path, FakeEncoder({"a": 0.1, "b": 0.2, "c": np.nan}))
    assert (result.items, meaning(result).value) == (2, pytest.approx(1))
    assert [skip.reason for skip in result.skipped] == ["its vectors are not finite"]


def test_a_model_that_can_encode_nothing_has_no_scores(tmp_path):
    similar = write_wic(tmp_path, "dev", [0.5, 0.6], "FT") | write_wic(tmp_path, "test", [0.2], "F")
    result, area = run(tmp_path, FakeEncoder(similar, unable=["x first"]))
    assert (result.items, len(result.skipped)) == (0, 3)
    assert np.isnan([meaning(result).value, meaning(area).value]).all()
    assert meaning(result).threshold is None


# --- finding tasks ---


def test_each_occurrence_is_encoded_once(tmp_path):
    write(tmp_path / "scws" / "ratings.txt", *[f"{n}\tx\tn\tx\tn\t<b>x</b> x\tx <b>x</b>\t{n}" for n in range(3)])
    encoder = FakeEncoder({})
    run(tmp_path, encoder)
    assert encoder.calls == [[("x x", (0, 1)), ("x x", (2, 3))]]


def test_tasks_are_chosen_by_name(tmp_path):
    write(tmp_path / "scws" / "ratings.txt", "1\tx\tn\tx\tn\t<b>x</b> x\tx <b>x</b>\t1")
    write(tmp_path / "sts" / "2012" / "a.test.tsv", "1\tfirst\ta")
    assert [task.name for task in find_tasks(tmp_path)] == ["scws", "sts"]
    assert [task.name for task in find_tasks(tmp_path, ["sts", "scws", "sts"])] == ["sts", "scws"]
    with pytest.raises(ConfigError, match="no such task: scwz; choose from wic, usim"):
        find_tasks(tmp_path, ["scwz"])
    with pytest.raises(ConfigError, match="the task usim needs the folder"):
        find_tasks(tmp_path, ["usim"])


def test_a_folder_without_any_set_says_what_is_looked_for(tmp_path):
    (tmp_path / "wordsim").mkdir()
    with pytest.raises(ConfigError, match="wic/, usim/, cosimlex/, scws/, sts/, stsb/, paws_wiki/, mclwic/"):
        find_tasks(tmp_path)
    with pytest.raises(ConfigError, match="it should contain some of"):
        find_tasks(tmp_path / "absent")


@pytest.mark.parametrize(("folder", "hint"), [("sts", "2012/"), ("stsb", "sts-dev.csv"), ("scws", "ratings.txt")])
def test_an_empty_folder_of_a_set_says_what_belongs_there(tmp_path, folder, hint):
    (tmp_path / folder).mkdir()
    with pytest.raises(ConfigError, match=hint):
        find_tasks(tmp_path)


# --- usages, words alone ---


def test_usages_are_scored_by_whether_the_sense_is_the_same(tmp_path):
    write(
        tmp_path / "usages" / "usages.tsv",
        "bank\tmoney\tThe bank lends.",
        "bank\tmoney\tA bank pays.",
        "bank\triver\tThe bank is wet.",
        "bank\triver\tNo such word here.",
        "key\tlock\tThe key fits.",
    )
    encoder = FakeEncoder({"The bank is wet.": 0.5})
    (result,) = run(tmp_path, encoder)
    assert (result.task, result.metric, result.items) == ("usages", "Spearman", 3)  # one word has one usage: no pair
    assert meaning(result).value == pytest.approx(spearman(np.array([1.0, 0.5, 0.5]), np.array([1.0, 0.0, 0.0])))
    assert [left.item for left in result.skipped] == ["usages.tsv:4"]
    assert [span for _, span in encoder.calls[0]] == [(4, 8), (2, 6), (4, 8)]


def test_the_pairs_of_a_word_are_drawn_together(tmp_path):
    """Of one word all is right, of the other nothing: the score depends on the words that are drawn."""
    usages = [(word, sense, f"{word} {sense} {n}.") for word in ("bank", "key") for sense in "ab" for n in range(4)]
    write(tmp_path / "usages" / "usages.tsv", *("\t".join(usage) for usage in usages))
    encoder = FakeEncoder({text: 0.5 for word, sense, text in usages if (word, sense) == ("bank", "b")})
    (result,) = run(tmp_path, encoder)
    assert result.groups.tolist() == ["bank"] * 28 + ["key"] * 28
    alone = bootstrap(spearman, result.similarities["meaning"], result.gold)
    found = meaning(result)
    assert (found.low, found.high) == bootstrap(
        spearman, result.similarities["meaning"], result.gold, groups=result.groups
    )
    assert found.high - found.low > alone[1] - alone[0]


def test_words_alone_are_encoded_as_texts(tmp_path):
    write(tmp_path / "wordsim" / "simlex999.txt", "# a remark", "old\tnew\t1.0", "old\taged\t9.0", "old\tyoung\t3.0")
    encoder = FakeEncoder({"new": 0.1, "aged": 0.9, "young": 0.4})
    (result,) = run(tmp_path, encoder)
    assert result.task == "SimLex-999 (words alone)"
    assert result.items == 3
    assert meaning(result).value == pytest.approx(1.0)
    assert encoder.calls == [["old", "new", "aged", "young"]]
