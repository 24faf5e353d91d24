"""Similarities and analogies of static vectors, computed by hand."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from corpusgen.errors import ConfigError
from distiller.evaluation.evaluate import compare
from distiller.evaluation.paper import STATIC
from distiller.evaluation.static import find_static_tasks, solve


class Table:
    def __init__(self, vectors):
        self.words = list(vectors)
        self.matrix = np.array(list(vectors.values()), np.float32)
        self._vectors = vectors

    def lookup(self, words):
        nothing = np.zeros(self.matrix.shape[1], np.float32)
        vectors = np.array([self._vectors.get(word, nothing) for word in words], np.float32)
        return vectors, np.array([word in self._vectors for word in words])

    def knows(self, words):
        return np.array([word in self._vectors for word in words])


def write(folder, name, *lines):
    folder.joinpath("wordsim").mkdir(exist_ok=True)
    (folder / "wordsim" / name).write_text("\n".join(lines) + "\n")


class WithSubwords(Table):
    """Like a model of fastText: any word has a vector."""

    def lookup(self, words):
        vectors, known = super().lookup(words)
        return np.where(known[:, None], vectors, np.float32([0.5, 0.1])), np.ones(len(words), bool)


def run(folder, vectors, *names):
    return [result for task in find_static_tasks(folder, names or None) for result in task.run_static(Table(vectors))]


def test_similarities_are_scored_by_rank_and_words_without_a_vector_are_named(tmp_path):
    write(tmp_path, "EN-RG-65.txt", "a b 4", "A c 3", "a d 1", "a Unknown 2", "a b")
    (result,) = run(tmp_path, {"a": [1, 0], "b": [1, 0.1], "c": [0, 1], "d": [1, 1]})
    assert (result.task, result.metric, result.items) == ("RG-65", "Spearman", 3)
    assert result.scores["static"].value == pytest.approx(0.5)
    assert result.similarities["static"] == pytest.approx([1 / np.hypot(1, 0.1), 0, np.sqrt(0.5)])
    assert [(skip.item, skip.reason) for skip in result.skipped] == [
        ("EN-RG-65.txt:5", "2 columns instead of 3"),
        ("EN-RG-65.txt:4 (Unknown)", "a word has no vector"),
    ]


def test_scores_stand_beside_what_is_published(tmp_path):
    write(tmp_path, "EN-RG-65.txt", "a b 4", "a c 3")
    write(tmp_path, "EN-SIMVERB-3500.txt", "a b 4", "a c 3")
    write(tmp_path, "EN-MEN-TR-3k.txt", "a b 4", "a c 3")
    write(tmp_path, "questions-words.txt", ": family", "a b c a")
    found = {result.task: result.published for result in run(tmp_path, {"a": [1, 0], "b": [1, 0.1], "c": [0, 1]})}
    assert found["RG-65"]["X2Static BERT-12 para"] == 0.7555
    assert found["MEN"] == {"dynamic skip-gram BERT-12": 0.762, "ASE BERT-12 layer 12": 0.663}
    assert found["Google analogies"]["dynamic skip-gram BERT-12"] == 0.758
    assert found["SimVerb-3500"]["ASE BERT-12 layer 3"] == 0.3889
    assert set(STATIC["RW"]) == {*found["RG-65"], *found["MEN"]}


def test_a_word_as_written_comes_before_its_lower_case(tmp_path):
    write(tmp_path, "EN-RG-65.txt", "May may 1", "a Turkey 2")
    (result,) = run(tmp_path, {"May": [1, 0], "may": [0, 1], "a": [1, 1], "turkey": [1, 1]})
    assert result.similarities["static"] == pytest.approx([0, 1])


def test_words_that_only_have_subwords_are_told_apart(tmp_path):
    write(tmp_path, "EN-RG-65.txt", "a b 4", "a c 3", "Unheard b 1", "Unheard other 2", "A b 2")
    (task,) = find_static_tasks(tmp_path)
    (result,) = task.run_static(WithSubwords({"a": [1, 0], "b": [1, 0.1], "c": [0, 1]}))
    assert (result.items, result.by_subwords, result.skipped) == (5, 2, [])
    assert result.similarities["static"][4] == pytest.approx(1 / np.hypot(1, 0.1))  # known in lower case


FAMILY = {"man": [1, 0, 0], "woman": [1, 1, 0], "king": [1, 0, 1], "queen": [1, 1, 1], "a": [9, 1, 0], "b": [0, 9, 1]}


def test_analogies_leave_out_the_words_of_the_question(tmp_path):
    # Nearest to woman - man + king are king and woman themselves, then queen.
    question = "man woman king queen"
    write(
        tmp_path, "questions-words.txt", ": family", question, "Man Woman King x", ": gram1-x", question, "a b king man"
    )
    (result,) = run(tmp_path, FAMILY)
    assert (result.task, result.metric, result.items) == ("Google analogies", "accuracy", 3)
    assert result.scores["static"].value == pytest.approx(2 / 3)
    assert [(part.task, part.items, part.scores["static"].value) for part in result.parts] == [
        ("Google analogies semantic", 1, 1),
        ("Google analogies syntactic", 2, 0.5),
    ]
    assert [skip.item for skip in result.skipped] == ["questions-words.txt:3 (x)"]


def test_analogies_of_microsoft_are_found_in_either_form(tmp_path):
    write(tmp_path, "word_relationship.questions", "man woman king")
    write(tmp_path, "word_relationship.answers", "NN_NN queen")
    (result,) = run(tmp_path, FAMILY)
    assert (result.task, result.scores["static"].value, result.parts) == ("MSR analogies", 1, [])
    write(tmp_path, "EN-MSR.txt", "man woman king NN_NN a")
    assert run(tmp_path, FAMILY)[0].scores["static"].value == 0


def test_answers_are_those_of_the_definition(monkeypatch):
    monkeypatch.setattr("distiller.evaluation.static._SCORES_AT_ONCE", 100)  # in several goes
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(30, 5)).astype(np.float32)
    matrix[7] = 0
    questions = np.array([generator.choice(30, 3, replace=False) for _ in range(20)])
    unit = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
    for (a, b, c), answer in zip(questions, solve(matrix, questions), strict=True):
        scores = {row: float(unit[row] @ (unit[b] - unit[a] + unit[c])) for row in range(30) if row not in (a, b, c)}
        assert answer == max(scores, key=scores.get)


def test_the_first_known_file_of_a_set_is_read(tmp_path):
    write(tmp_path, "SimLex-999.txt", "word1 word2 POS SimLex999", "a b A 1", "a c A 2")
    vectors = {"a": [1, 0], "b": [1, 0.1], "c": [0, 1]}
    assert [result.gold.tolist() for result in run(tmp_path, vectors, "SimLex-999")] == [[1, 2]]
    write(tmp_path, "EN-SIMLEX-999.txt", "a b 3", "a c 4")
    assert [result.gold.tolist() for result in run(tmp_path, vectors)] == [[3, 4]]


def test_unknown_and_absent_tasks_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"EN-RG-65\.txt"):
        find_static_tasks(tmp_path)
    write(tmp_path, "EN-RG-65.txt", "a b 4")
    with pytest.raises(ConfigError, match="no such task: rg; choose from RG-65, WS-353"):
        find_static_tasks(tmp_path, ["rg"])
    with pytest.raises(ConfigError, match="no file for the task MEN; found only RG-65"):
        find_static_tasks(tmp_path, ["MEN"])


# ------------------------------------------------------------------- relations

QUESTIONS = """\
What relation best describes these word pairs?
Relation: CLASS-INCLUSION, Taxonomic

Consider the following pairs:
animal:dog
animal:cat
nothing:known
(1) X:Y is a "kind" of Y
"""


def write_relation(folder, name, ratings, questions=QUESTIONS, part="Testing"):
    for kind, text in (("Phase1Questions", questions), ("GoldRatings", ratings)):
        path = folder / "semeval2012" / part / kind / f"{kind}-{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


ANIMALS = {"animal": [1, 0], "dog": [1, 1], "cat": [0.9, 1.1], "fruit": [2, 0.1], "apple": [1.5, 1.4], "Pear": [1, 2]}
RATINGS = """\
#   Generated by:               maxdiff_to_scale.pl
#
 50.0 "fruit:apple"
 38.8 "animal:dog"
  6.2 "fruit:pear"
-16.0 "dog:cat"
-30.0 "apple:fruit"
-55.1 "dog:animal"
 -1.0 "fruit:unheard"
nonsense
"""


def by_hand(vectors, pairs):
    """The mean cosine of the difference of two words with those of the known examples."""
    unit = {word: np.array(vector) / np.linalg.norm(vector) for word, vector in vectors.items()}
    examples = [unit["dog"] - unit["animal"], unit["cat"] - unit["animal"]]
    offsets = [unit[second] - unit[first] for first, second in pairs]
    return [np.mean([o @ e / np.linalg.norm(o) / np.linalg.norm(e) for e in examples]) for o in offsets]


def test_relations_are_scored_by_differences_of_words(tmp_path):
    write_relation(tmp_path, "1a", RATINGS)
    write_relation(tmp_path, "10b", RATINGS.replace("50.0", "-99"))
    write_relation(tmp_path, "2c", RATINGS, part="Training")
    vectors = {**ANIMALS, "pear": [1, 2]}
    (result,) = run(tmp_path, vectors)
    assert (result.task, result.metric, result.items) == ("SemEval-2012 relations", "Spearman", 12)
    assert [part.task for part in result.parts] == ["1a", "10b"]
    pairs = [
        ("fruit", "apple"),
        ("animal", "dog"),
        ("fruit", "pear"),
        ("dog", "cat"),
        ("apple", "fruit"),
        ("dog", "animal"),
    ]
    wanted = by_hand(vectors, pairs)
    np.testing.assert_allclose(result.similarities["static"], [*wanted, *wanted], atol=1e-6)
    of_parts = [
        spearmanr(wanted, gold)[0] for gold in ([50, 38.8, 6.2, -16, -30, -55.1], [-99, 38.8, 6.2, -16, -30, -55.1])
    ]
    assert result.scores["static"].value == pytest.approx(np.mean(of_parts))
    assert [(skip.item, skip.reason) for skip in result.parts[0].skipped] == [
        ("GoldRatings-1a.txt:10", "1 columns instead of 2"),
        ("GoldRatings-1a.txt:9 (unheard)", "a word has no vector"),
    ]
    assert len(result.skipped) == 4


def test_relations_without_enough_pairs_or_examples_are_left_out(tmp_path):
    write_relation(tmp_path, "1a", RATINGS)
    write_relation(tmp_path, "1b", ' 50.0 "fruit:apple"\n')
    write_relation(tmp_path, "1c", RATINGS, QUESTIONS.replace("animal:", "unheard:"))
    (result,) = run(tmp_path, {**ANIMALS, "pear": [1, 2]})
    assert ([part.task for part in result.parts], result.items) == (["1a"], 6)
    assert {skip.reason for skip in result.skipped} >= {"no example of its relation has vectors"}
    (nothing,) = run(tmp_path, {"other": [1, 2]})
    assert (nothing.items, np.isnan(nothing.scores["static"].value)) == (0, True)


def test_relations_of_two_tables_are_compared_pair_by_pair(tmp_path):
    """Also if one of them has to leave a relation out."""
    for name in ("1a", "1b"):
        questions = QUESTIONS if name == "1b" else QUESTIONS.replace("animal:", "beast:")
        write_relation(tmp_path, name, RATINGS, questions)
    few, more = {**ANIMALS, "pear": [1, 2]}, {**ANIMALS, "pear": [2, 1], "beast": [1, 0]}
    (ours,), (theirs,) = run(tmp_path, few), run(tmp_path, more)
    (difference,) = compare([ours], [theirs], "others", "static").differences
    assert (difference.items, difference.unpaired) == (6, 6)


def test_relations_without_their_examples_are_refused(tmp_path):
    write_relation(tmp_path, "1a", RATINGS, "no pairs")
    with pytest.raises(ConfigError, match=r"Phase1Questions-1a\.txt has no examples, lines with a pair such as"):
        find_static_tasks(tmp_path)
    next(tmp_path.rglob("Phase1Questions-*")).unlink()
    with pytest.raises(ConfigError, match=r"has GoldRatings-1a\.txt, but no Phase1Questions-1a\.txt"):
        find_static_tasks(tmp_path)
