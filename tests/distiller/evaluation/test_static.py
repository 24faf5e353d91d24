"""Similarities and analogies of static vectors, computed by hand."""

import numpy as np
import pytest

from corpusgen.errors import ConfigError
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


def write(folder, name, *lines):
    folder.joinpath("wordsim").mkdir(exist_ok=True)
    (folder / "wordsim" / name).write_text("\n".join(lines) + "\n")


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


def test_similarities_stand_beside_what_is_published(tmp_path):
    write(tmp_path, "EN-RG-65.txt", "a b 4", "a c 3")
    write(tmp_path, "EN-MEN-TR-3k.txt", "a b 4", "a c 3")
    rg65, men = run(tmp_path, {"a": [1, 0], "b": [1, 0.1], "c": [0, 1]})
    assert rg65.published == {"X2Static BERT-12 para": 0.7555, "ASE BERT-12 best layer": 0.6948}
    assert men.published == {}
    assert STATIC["RW"] == {"X2Static BERT-12 para": 0.5299, "ASE BERT-12 best layer": 0.4343}


def test_a_word_as_written_comes_before_its_lower_case(tmp_path):
    write(tmp_path, "EN-RG-65.txt", "May may 1", "a Turkey 2")
    (result,) = run(tmp_path, {"May": [1, 0], "may": [0, 1], "a": [1, 1], "turkey": [1, 1]})
    assert result.similarities["static"] == pytest.approx([0, 1])


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
