"""The commands on static vectors: what they write and say, and what they refuse."""

import shutil
from itertools import pairwise
from pathlib import Path

import fasttext
import numpy as np
import pytest

from corpusgen.errors import ConfigError, StageError
from distiller import StaticVectors
from distiller.evaluation.report import Comparison, Evaluation, TaskDifference
from distiller.static.scores import harm
from tests.distiller.commands import command
from tests.distiller.static.support import random_table
from tests.testing.shared_data import shared_data


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two tables, benchmarks of their words, and a dictionary."""
    monkeypatch.chdir(tmp_path)
    vectors = random_table(60, 12)
    vectors.save("in.txt")
    StaticVectors.of([*vectors.words[30:], "new"], np.random.default_rng(1).normal(size=(31, 5))).save("other.npy")
    Path("eval/wordsim").mkdir(parents=True)
    cosines = [(a, b, vectors.similarity(a, b)) for a, b in pairwise(vectors.words)]
    Path("eval/wordsim/EN-RG-65.txt").write_text("".join(f"{a} {b} {cosine}\n" for a, b, cosine in cosines))
    Path("eval/wordsim/questions-words.txt").write_text(": family\nw1 w2 w3 w4\n: gram\nw5 w6 w7 w8\n")
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(12, 12)))[0]
    StaticVectors.of([f"t{n}" for n in range(60)], vectors.vectors @ turn).save("target.bin")
    Path("pairs.tsv").write_text("".join(f"w{n}\tt{n}\n" for n in range(50)) + "unknown\tt3\n")
    return tmp_path


def test_processed_vectors_are_written_with_their_card(folder):
    said = command("postprocess", "in.txt", "out", "--all-but-the-top", "--components", 2, "--pca", 6, "--normalize")
    assert "in.txt: 60 words, 12 dimensions" in said
    assert "removed the mean and 2 of 12 components" in said
    assert "Nothing says yet whether this helps: give --data" in said
    made = StaticVectors.load("out")
    assert (len(made), made.dimension) == (60, 6)
    np.testing.assert_allclose(np.linalg.norm(made.vectors, axis=1), 1, atol=1e-5)
    card = Path("out/README.md").read_text()
    assert "# Post-processed word vectors" in card
    assert "| made from | in.txt |" in card
    assert "kept 6 of 12 dimensions" in card
    assert "unit length |" in card


def test_scores_are_shown_before_and_after_and_harm_is_said_plainly(folder):
    """The benchmark says what the vectors themselves say, so that every change hurts."""
    said = command("postprocess", "in.txt", "out.npy", "--all-but-the-top", "--components", 8, "--data", "eval")
    assert "Processed vectors are below the original ones on 1 of 2 sets" in said
    assert "original" in said
    assert "100.0 [100.0, 100.0]" in said
    assert "This hurts on RG-65 (-" in said
    assert "for such uses, keep the vectors as they were" in said
    card = Path("out.npy.README.md").read_text()
    assert "## Evaluation" in card
    assert "| RG-65 | Spearman | 59 | 100.0" in card


def test_a_rotation_changes_no_score(folder):
    said = command("postprocess", "in.txt", "out.bin", "--order", 0, "--data", "eval")
    assert "not distinguishable" in said
    assert "This hurts" not in said


def test_harm_is_only_what_chance_does_not_explain():
    def differing(task, low, high):
        return TaskDifference(task, "processed", (low + high) / 2, low, high, 0.5)

    differences = [differing("a", -0.3, -0.1), differing("b", -0.1, 0.2), differing("c", np.nan, np.nan)]
    evaluation = Evaluation("v", "", [], 0.0, Comparison("the original ones", differences))
    assert harm(evaluation) == "This hurts on a (-20.0): for such uses, keep the vectors as they were."
    assert harm(Evaluation("v", "", [], 0.0, Comparison("o", differences[1:]))) == ""


def test_words_that_files_cannot_hold_are_left_out_with_a_message(folder, capsys):
    Path("odd.txt").write_text("a 1 2\nnew york 3 4\na 5 6\nb 7 8\n")
    said = command("postprocess", "odd.txt", "out.txt", "--normalize")
    assert "left out: 2 words that files cannot hold" in said
    assert "'new york'" in said
    assert list(StaticVectors.load("out.txt").words) == ["a", "b"]


def test_tables_are_combined(folder):
    said = command("combine", "in.txt", "other.npy", "both.txt")
    assert "30 words in common, 10 dimensions" in said
    assert "the common space has the 5 dimensions of the smaller table, not 12; concat keeps all" in said
    assert (len(StaticVectors.load("both.txt")), StaticVectors.load("both.txt").dimension) == (30, 10)
    card = Path("both.txt.README.md").read_text()
    for line in ("| made from | in.txt and other.npy |", "| how | geometric |", "| c | 50 |"):
        assert line in card
    assert "17 dimensions" in command("combine", "in.txt", "other.npy", "joined.bin", "--how", "concat")
    assert "| c |" not in Path("joined.bin.README.md").read_text()


def test_a_model_with_subwords_is_read_and_what_is_lost_is_said(folder):
    Path("texts.txt").write_text("w1 w2 w3 w4\n" * 50)
    options = {"dim": 5, "minCount": 1, "epoch": 1, "thread": 12, "verbose": 0, "minn": 2, "maxn": 3, "bucket": 97}
    fasttext.train_unsupervised("texts.txt", **options).save_model("model.bin")
    said = command("combine", "in.txt", "model.bin", "both.npy", "--how", "concat")
    assert "model.bin: 5 words, 5 dimensions; vectors from sub-words are not kept" in said
    assert list(StaticVectors.load("both.npy").words) == ["w1", "w2", "w3", "w4"]


def test_vectors_are_aligned_and_judged_by_what_was_held_out(folder):
    said = command("align-vectors", "in.txt", "target.bin", "aligned.npy", "--dictionary", "pairs.tsv")
    assert "pairs.tsv: 51 pairs, 50 of them with both words known" in said
    assert "held-out words: nearest neighbour 100.0 % [100.0, 100.0], CSLS 100.0 %" in said
    aligned, target = StaticVectors.load("aligned.npy"), StaticVectors.load("target.bin")
    np.testing.assert_allclose(aligned.vectors, target.vectors, atol=1e-3)
    card = Path("aligned.npy.README.md").read_text()
    assert "| in the space of | target.bin |" in card
    assert "Precision@1" in card


def test_a_dictionary_may_be_for_the_test_alone(folder):
    same = StaticVectors.load("target.bin")
    words = [f"w{n}" if n < 40 else f"t{n}" for n in range(60)]
    StaticVectors.of(words, same.vectors).save("alike.txt")
    Path("pairs.tsv").write_text("".join(f"w{n}\tt{n}\n" for n in range(40, 60)))
    said = command("align-vectors", "in.txt", "alike.txt", "out.npy", "--dictionary", "pairs.tsv", "--held-out", 1)
    assert "fitted to 40 words written alike" in said
    assert "Precision@1 on 20 held-out words: nearest neighbour 100.0 %" in said


def test_a_map_from_few_words_without_a_test_is_called_what_it_is(folder):
    same = StaticVectors.load("target.bin")
    StaticVectors.of(["w0", "w1", *same.words[2:]], same.vectors).save("alike.txt")
    said = command("align-vectors", "in.txt", "alike.txt", "out.npy", "--refine", 0)
    assert "fitted to 2 words written alike" in said
    assert "fewer pairs than the 12 dimensions: the map is only a guess in the others" in said
    assert "nothing says how good the map is" in said


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("postprocess", "nowhere.txt", "out.txt", "--normalize"), StageError, r"nowhere\.txt: no such file"),
        (("postprocess", "in.txt", "in.txt", "--normalize"), ConfigError, r"in\.txt: this would overwrite in\.txt"),
        (("postprocess", "in.txt", "./in.txt", "--normalize"), ConfigError, "this would overwrite"),
        (("postprocess", "other.npy", "other.txt", "--normalize"), ConfigError, r"overwrite other\.npy or a file that"),
        (("postprocess", "in.txt", "out.parquet", "--normalize"), ConfigError, r"'\.parquet' is none of these"),
        (
            ("postprocess", "in.txt", "eval/wordsim", "--normalize"),
            ConfigError,
            "this folder holds other files, such as",
        ),
        (("postprocess", "in.txt", "out.txt"), ConfigError, "nothing to do"),
        (("postprocess", "in.txt", "out.txt", "--pca", 12), ConfigError, "choose a number from 1 to 11"),
        (("postprocess", "in.txt", "out.txt", "--pca", 3, "--data", "nowhere"), ConfigError, "has no benchmark"),
        (("combine", "in.txt", "target.bin", "out.txt"), ConfigError, "have no word in common"),
        (("combine", "in.txt", "other.npy", "out.txt", "--how", "mean"), ConfigError, "not 12 and 5; choose concat"),
        (("combine", "in.txt", "other.npy", "other.words.txt"), ConfigError, r"would overwrite other\.npy"),
        (("align-vectors", "in.txt", "other.npy", "out.txt"), ConfigError, "SOURCE has 12 dimensions and TARGET 5"),
        (("align-vectors", "in.txt", "target.bin", "out.txt"), ConfigError, "write no word alike; give pairs"),
        (
            ("align-vectors", "in.txt", "target.bin", "out.txt", "--dictionary", "eval/wordsim/EN-RG-65.txt"),
            ConfigError,
            "line 1: expected two words",
        ),
        (
            ("align-vectors", "in.txt", "target.bin", "out.txt", "--dictionary", "unknown.tsv"),
            ConfigError,
            r"unknown\.tsv: none of its 2 pairs has a word that SOURCE knows and one that TARGET knows",
        ),
        (
            ("align-vectors", "in.txt", "target.bin", "out.txt", "--dictionary", "pairs.tsv", "--target-first"),
            ConfigError,
            "0 of 51 pairs are known in this order, and 50 in the other; leave out --target-first",
        ),
        (
            ("align-vectors", "target.bin", "in.txt", "out.txt", "--dictionary", "pairs.tsv"),
            ConfigError,
            "in the other; add --target-first",
        ),
        (
            ("align-vectors", "in.txt", "target.bin", "pairs.tsv", "--dictionary", "pairs.tsv"),
            ConfigError,
            "none of these",
        ),
    ],
)
def test_mistakes_are_explained_and_leave_nothing(folder, arguments, error, message):
    Path("unknown.tsv").write_text("a\tb\nc\td\n")
    before = sorted(folder.rglob("*"))
    with pytest.raises(error, match=message):
        command(*arguments)
    assert sorted(folder.rglob("*")) == before


def test_a_folder_can_be_written_again_but_not_onto_itself(folder):
    for _ in range(2):
        command("postprocess", "in.txt", "model", "--normalize")
    with pytest.raises(ConfigError, match="model/: this would overwrite model"):
        command("postprocess", "model", "model/", "--normalize")
    shutil.copytree("model", "copy")
    command("postprocess", "copy", "model", "--normalize")


@pytest.mark.real
def test_real_vectors_keep_what_they_know(tmp_path):
    """GloVe: fewer dimensions cost little, and French words find their English translations."""
    english, french = (str(shared_data(f"models/vectors/{name}.npy")) for name in ("glove-840B-300d", "fr-300d"))
    pairs = str(shared_data("parallel/freedict.en-fr.tsv"))
    command("postprocess", english, str(tmp_path / "small.npy"), "--pca", 200)
    small = StaticVectors.load(str(tmp_path / "small.npy"))
    assert small.similarity("sold", "bought") == pytest.approx(
        StaticVectors.load(english).similarity("sold", "bought"), abs=0.1
    )
    options = ("--dictionary", pairs, "--target-first")
    said = command("align-vectors", french, english, str(tmp_path / "fr.npy"), *options)
    assert float(said.partition("CSLS ")[2].partition(" ")[0]) > 55
    aligned = StaticVectors.load(str(tmp_path / "fr.npy"))
    nearest = [neighbour.word for neighbour in StaticVectors.load(english).nearest(aligned["chien"], k=3)]
    assert "dog" in nearest
