"""An analysis finds what was planted in made-up vectors, and nothing where nothing was."""

import io
import json
import random
import sys

import numpy as np
import pytest
import torch
from rich.console import Console

from corpusgen.errors import ConfigError
from distiller.evaluation import analysis as module
from distiller.evaluation import probes
from distiller.evaluation.analysis import analyse, tables, to_json
from distiller.evaluation.files import SentencePair
from distiller.evaluation.probes import AMOUNT, KNOWN_CLASS, LINEAR_CLASS, probe, r_squared
from distiller.evaluation.word_samples import (
    content_words,
    frequent_words,
    parts_of_speech,
    read_sentence_pairs,
    sample_texts,
    sentence_lengths,
    word_pairs,
)
from distiller.inference.word_distiller import WordDistiller
from distiller.settings import BackboneSettings
from distiller.words.backbone import NO_PIECE, Backbone
from distiller.words.model import WordModel
from tests.distiller.commands import command
from tests.distiller.words.test_model import reference
from tests.testing import triple_builds as support
from tests.testing.frozen_models import save
from tests.testing.tiny_masked_models import sentence

DIMENSION = 16


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    return Backbone(BackboneSettings(model=save("bert", tmp_path_factory.mktemp("bert"))))


@pytest.fixture(scope="module")
def model(backbone):
    return WordDistiller(backbone, WordModel(DIMENSION))


def some_texts(count, seed=0):
    chance = random.Random(seed)
    return [sentence(chance, chance.randrange(3, 14)) for _ in range(count)]


def some_pairs(count):
    texts = some_texts(2 * count, seed=1)
    return [SentencePair(str(n), (texts[2 * n], texts[2 * n + 1]), float(n % 2)) for n in range(count)]


def surfaces(occurrences):
    return [text[start:end] for text, (start, end) in occurrences]


# --- words ---


def test_content_words_are_those_of_three_letters_that_are_once_in_the_text():
    text = "Paris, PARIS and Zürich: don’t visit no2 ox-carts' wheels, the town_hall or Anna's river."
    found = ["Zürich", "visit", "carts", "wheels", "Anna", "river"]
    assert surfaces((text, span) for span in content_words(text).values()) == found
    assert list(content_words(text)) == [word.lower() for word in found]


def test_pairs_are_of_common_and_of_different_words():
    pairs = [
        SentencePair("1", ("The king saw a river, the river.", "A King crossed the wide river quickly."), 1.0),
        SentencePair("2", ("Music played.", "Music music stopped."), 0.0),
    ]
    common, common_not, different, different_not = word_pairs(pairs, 10, 0)
    assert [surfaces(pair) for pair in common.pairs] == [["king", "King"]]
    assert common_not.pairs == []
    ((one, other),) = (surfaces(pair) for pair in different.pairs)
    assert one == "saw"
    assert other in {"crossed", "wide", "quickly"}
    assert [surfaces(pair) for pair in different_not.pairs] == [["played", "stopped"]]
    assert common.name == "common words in paraphrases"
    assert different_not.name == "different words in non-paraphrases"


def test_pairs_are_bounded_and_follow_the_seed():
    pairs = some_pairs(40)
    made = word_pairs(pairs, 5, 0)
    assert made == word_pairs(pairs, 5, 0)
    assert made != word_pairs(pairs, 5, 1)
    assert all(len(set(of.sentences)) <= 5 and len(of.sentences) == len(of.pairs) for of in made)


def test_samples_are_different_texts_by_seed():
    texts = ["a", "b", "a", "c", "d"]
    assert sorted(sample_texts(texts, 9, 0)) == ["a", "b", "c", "d"]
    assert len(sample_texts(texts, 2, 0)) == 2
    assert len({tuple(sample_texts(texts, 9, seed)) for seed in range(9)}) > 1


def test_each_text_gives_one_word_and_its_length():
    items = sentence_lengths(["the castle stood", "the of", "an old river town", "castle, garden and queen in it"], 0)
    assert items.targets.tolist() == [3, 4, 6]
    assert items.held_out.tolist() == [False] * 3
    assert sentence_lengths(some_texts(8), 0).held_out.sum() == 2


def test_frequent_words_are_on_both_sides_and_no_text_is():
    texts = some_texts(300)
    items = frequent_words(texts)
    words = np.array([surface.lower() for surface in surfaces(items.occurrences)])
    for label in np.unique(items.targets):
        assert len(set(words[items.targets == label])) == 1
        assert set(items.held_out[items.targets == label]) == {True, False}
        assert 4 <= (items.targets == label).sum() <= 40
    of_texts = np.array([text for text, _ in items.occurrences])
    assert not {*of_texts[items.held_out]} & {*of_texts[~items.held_out]}


def test_parts_of_speech_are_of_words_that_have_one_and_of_each_lemma_a_single_one():
    texts = [
        "He quickly built a mountain.",
        "It stands on mountains, Mountain.",
        "A famous river in asia had ice, built by.",
    ]
    items = parts_of_speech(texts)
    found = dict(zip(surfaces(items.occurrences), items.targets.tolist(), strict=True))
    assert found == {"quickly": 3, "built": 1, "mountain": 0, "famous": 2, "river": 0}


# --- paraphrases of a folder ---


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_scores_of_the_sts_benchmark_are_labels_or_nothing(tmp_path):
    scores = ("5.0", "4.0", "3.9", "2.1", "2.0", "0", "x")
    write(tmp_path / "stsb" / "sts-dev.csv", *(f"g\tf\ty\t{n}\t{score}\tone.\ttwo." for n, score in enumerate(scores)))
    said = []
    pairs = read_sentence_pairs(tmp_path, said.append)
    assert [pair.gold for pair in pairs] == [1, 1, 0, 0]
    (line,) = said
    assert line.endswith("sts-dev.csv: 2 paraphrases, 2 other pairs; 1 lines skipped")


def test_labels_of_paws_go_before(tmp_path):
    write(tmp_path / "stsb" / "sts-test.csv", "g\tf\ty\t1\t5.0\tone.\ttwo.")
    for split in ("dev", "test"):
        write(
            tmp_path / "paws" / f"{split}.tsv",
            "id\tsentence1\tsentence2\tlabel",
            f"1\t{split}.\ttwo.\t1",
            "2\ta.\tb.\t0",
        )
    pairs = read_sentence_pairs(tmp_path, lambda line: None)
    assert [(pair.texts[0], pair.gold) for pair in pairs] == [("test.", 1), ("a.", 0)]


def test_a_folder_without_paraphrases_is_an_error_that_says_what_is_looked_for(tmp_path):
    with pytest.raises(ConfigError, match=r"paws_wiki/test.tsv, .* stsb/sts-test.csv"):
        read_sentence_pairs(tmp_path)


# --- probes ---


def planted(count=400, dimension=30, classes=None, share=1.0, seed=0):
    """Noise, noise that holds the targets, and the targets; a quarter is held out."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(size=(count, dimension)).astype(np.float32)
    targets = generator.normal(5, 3, count) if classes is None else generator.integers(classes, size=count) * 1.0
    holding = noise.copy()
    directions = generator.normal(size=(1 if classes is None else classes, dimension))
    holding += share * (targets[:, None] * directions if classes is None else 4 * directions[targets.astype(int)])
    return {"noise": noise, "holding": 1000 * holding + 7}, targets, np.arange(count) % 4 == 3


@pytest.mark.parametrize(
    ("method", "classes", "guess"), [(AMOUNT, None, 0), (KNOWN_CLASS, 5, 0.2), (LINEAR_CLASS, 3, 0.33)]
)
@pytest.mark.parametrize("dimension", [30, 350])
def test_a_probe_finds_what_was_planted_and_nothing_else(method, classes, guess, dimension):
    vectors, targets, held_out = planted(dimension=dimension, classes=classes)
    made = probe("planted", method, vectors, targets, held_out)
    assert (made.learned_from, made.judged_by) == (300, 100)
    assert made.guess == pytest.approx(guess, abs=0.1)
    assert made.scores["holding"].value > 0.9
    assert made.scores["noise"].value == pytest.approx(guess, abs=0.17)
    for score in made.scores.values():
        assert score.low <= score.value <= score.high
    assert probe("planted", method, vectors, targets, held_out) == made


def test_a_probe_does_not_see_what_is_held_out():
    vectors, targets, held_out = planted(classes=3)
    mixed = np.where(held_out, (targets + 1) % 3, targets)
    for method in (KNOWN_CLASS, LINEAR_CLASS):
        assert probe("", method, vectors, mixed, held_out).scores["holding"].value < 0.1


def test_the_ridge_is_chosen_by_leaving_each_item_out():
    vectors, targets, held_out = planted(40, 8, share=0.1, seed=3)
    known = vectors["noise"][~held_out].astype(float)
    known = (known - known.mean(0)) / known.std(0)
    gold, asked = targets[~held_out] + known[:, 0], np.eye(8)

    def fitted(rows, ridge):
        x, y = known[rows], gold[rows]
        x_mean, y_mean = x.mean(0), y.mean()
        centred = x - x_mean
        weights = np.linalg.solve(centred.T @ centred + ridge * np.eye(8), centred.T @ (y - y_mean))
        return lambda others: (others - x_mean) @ weights + y_mean

    def error(ridge):
        rows = np.arange(len(known))
        return sum((fitted(rows != row, ridge)(known[row]) - gold[row]) ** 2 for row in rows)

    best = min(len(known) * np.logspace(3, -3, 13), key=error)
    np.testing.assert_allclose(AMOUNT.rule(known, gold, asked), fitted(slice(None), best)(asked), atol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_linear_class_is_that_of_a_softmax_with_weight_decay(classes):
    vectors, targets, _ = planted(60, 5, classes=classes, share=0.2)
    known = vectors["noise"].astype(float)
    asked = np.random.default_rng(1).normal(size=(500, 5))
    weights, bias = (torch.zeros(*size, dtype=torch.float64, requires_grad=True) for size in ((5, classes), (classes,)))
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        scores = torch.from_numpy(known) @ weights + bias
        value = torch.nn.functional.cross_entropy(scores, torch.from_numpy(targets).long())
        value = value + 0.1 / 2 * weights.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    with torch.no_grad():
        expected = (torch.from_numpy(asked) @ weights + bias).argmax(1).numpy()
    assert len(set(expected)) == classes
    assert probes._logistic(known, targets, asked, 0.1).tolist() == expected.tolist()


def test_a_class_that_only_chooses_the_decay_is_no_harm():
    vectors, _, held_out = planted()
    targets = np.where(np.cumsum(~held_out) % 5 == 0, 1.0, 0.0)
    assert probe("", LINEAR_CLASS, vectors, targets, held_out).guess > 0.7


@pytest.mark.parametrize("method", [AMOUNT, LINEAR_CLASS])
def test_probes_without_scikit_learn_say_what_to_install(method, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    vectors, targets, held_out = planted(classes=3)
    with pytest.raises(ConfigError, match=r"scikit-learn: pip install 'wicdistil\[evaluate\]'"):
        probe("", method, vectors, targets, held_out)


def test_features_that_never_vary_are_no_harm():
    vectors, targets, held_out = planted(classes=3)
    flat = {"holding": np.hstack([vectors["holding"], np.full((400, 2), 3.0)])}
    for method in (KNOWN_CLASS, LINEAR_CLASS):
        assert probe("", method, flat, targets, held_out).scores["holding"].value > 0.9


@pytest.mark.parametrize(("count", "classes"), [(36, 3), (0, 3), (400, 1)])
def test_too_few_items_or_classes_are_no_probe(count, classes):
    vectors, targets, held_out = planted(count, classes=classes)
    assert probe("", KNOWN_CLASS, vectors, targets, held_out) is None


def test_r_squared_by_hand():
    assert r_squared([1, 2, 3], [1, 2, 3]) == 1
    assert r_squared([2, 2, 2], [1, 2, 3]) == 0
    assert r_squared([[1, 2, 4], [3, 2, 1]], [[1, 2, 3]] * 2) == pytest.approx([0.5, -3])
    assert np.isnan(r_squared([1, 2], [2, 2]))


# --- all of it ---


class Planted:
    """Meaning vectors that are the word's own, context vectors that hold the length of the text and nothing else."""

    def __init__(self, unable=()):
        self.unable = unable

    def words(self, texts, spans):
        words = surfaces(zip(texts, spans, strict=True))
        meaning = np.array([np.random.default_rng([*word.lower().encode()]).normal(size=64) for word in words])
        context = np.array([[len(text.split()), 1.0] for text in texts])
        reasons = [NO_PIECE if word in self.unable else None for word in words]
        return {"meaning": meaning, "context": context, "baseline": np.hstack([meaning, context])}, reasons


@pytest.fixture
def plant(monkeypatch):
    def with_encoder(encoder):
        monkeypatch.setattr(module, "ModelEncoder", lambda model: encoder)

    return with_encoder


def test_an_analysis_of_planted_vectors(model, plant):
    plant(Planted())
    said = []
    found = analyse(model, some_pairs(40), some_texts(400), said.append)
    common, other_common, different, _ = found.cosines
    for of in (common, other_common):
        assert of.scores["meaning"].value == pytest.approx(1)
        assert of.scores["meaning"].low == pytest.approx(1)
    assert different.scores["meaning"].value == pytest.approx(0, abs=0.2)
    assert different.scores["context"].value == pytest.approx(1, abs=0.1)
    assert different.sentence_pairs <= 20 < different.word_pairs
    length, identity = found.probes
    assert (length.name, identity.name) == ("sentence length", "word identity")
    assert length.scores["context"].value == pytest.approx(1, abs=1e-3)
    assert length.scores["meaning"].value < 0.1
    assert identity.scores["meaning"].value == 1
    assert identity.scores["context"].value < identity.guess + 0.15
    # The made-up texts have a dozen words that are one part of speech only.
    assert [line for line in said if line.startswith("probe of part of speech: ")]
    assert found.skipped == {}


def test_words_of_one_pair_of_sentences_are_resampled_together(model, plant):
    """One pair of sentences with many words says no more than one with a single word."""
    plant(Planted())
    text = "castle garden winter summer music river town letter"
    found = analyse(model, [SentencePair("1", (text, "king queen mountain people"), 1.0)], [], lambda line: None)
    (different,) = found.cosines
    score = different.scores["meaning"]
    assert (different.word_pairs, different.sentence_pairs) == (4, 1)
    assert score.low == score.value == score.high


def test_words_without_vectors_are_counted_and_left_out(model, plant):
    plant(Planted(unable={"river"}))
    pair = SentencePair("1", ("small river town", "the town and the river"), 1.0)
    found = analyse(model, [pair], [], lambda line: None)
    assert [each.word_pairs for each in found.cosines] == [1]
    assert found.skipped == {NO_PIECE: 2}


def test_attention_is_that_of_pytorch(model, backbone):
    text = "the castle stood"
    attention = analyse(model, [], [text], lambda line: None).attention
    assert (attention.words, attention.layers) == (1, [3, 4])
    found = sentence_lengths([text], 0).occurrences[0]
    states = torch.from_numpy(backbone.states(*([each] for each in found))[0])
    for name in ("meaning", "context"):
        layer = reference(model.model, getattr(model.model, name)).eval()
        _, weights = layer.self_attn(states, states, states)
        assert attention.weights[name] == pytest.approx(weights.mean((0, 1)).tolist(), abs=1e-5)
        assert sum(attention.weights[name]) == pytest.approx(1)


def test_layers_that_look_alike_are_attended_to_alike(backbone):
    distillers = WordModel(DIMENSION)
    torch.nn.init.zeros_(distillers.meaning.attention.query_key_value.weight)
    attention = analyse(WordDistiller(backbone, distillers), [], some_texts(50), lambda line: None).attention
    assert attention.weights["meaning"] == pytest.approx([0.5, 0.5])
    assert attention.weights["context"] != pytest.approx([0.5, 0.5], abs=1e-4)
    assert 50 < attention.words <= 512


def printed(found):
    console = Console(file=io.StringIO(), width=120)
    for table in tables(found):
        console.print(table)
    return console.file.getvalue()


def test_an_analysis_of_a_model_is_the_same_again_and_strict_json(model):
    inputs = some_pairs(20), some_texts(200)
    found, again = (analyse(model, *inputs, lambda line: None) for _ in range(2))
    assert found == again
    content = to_json(found)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    text = printed(found)
    score = found.cosines[0].scores["context"]
    for shown in (
        "attention to layers",
        "common words in non-paraphrases",
        "sentence length",
        f"{100 * score.low:.1f}",
    ):
        assert shown in text
    assert [line.split()[-3:] for line in text.splitlines() if "held out" in line] == [
        ["baseline", "meaning", "context"]
    ]


def test_a_baseline_has_no_attention(backbone):
    found = analyse(WordDistiller(backbone, None), some_pairs(20), [], lambda line: None)
    assert found.attention is None
    assert found.cosines[0].scores.keys() == {"baseline"}
    assert "layer" not in printed(found)


def test_nothing_to_analyse_with_is_an_error(model):
    with pytest.raises(ConfigError, match="English"):
        analyse(model, [], ["42", ""])


def test_the_command_analyses_a_model_from_its_files_to_a_file(model_path, tmp_path):
    texts = support.sentences(120, seed=6)
    write(
        tmp_path / "eval" / "stsb" / "sts-dev.csv",
        *(
            f"g\tf\ty\t{n}\t{5 * (n % 2)}\t{a}\t{b}"
            for n, (a, b) in enumerate(zip(texts[::2], texts[1::2], strict=True))
        ),
    )
    write(tmp_path / "texts.txt", *support.sentences(200, seed=7), "")
    out = tmp_path / "analysis.json"
    printed = command(
        "analyze", model_path, "--data", tmp_path / "eval", "--texts", tmp_path / "texts.txt", "--json", out
    )
    for shown in ("30 paraphrases, 30 other pairs", "attention to layers", "mean cosine", "sentence length", str(out)):
        assert shown in printed
    found = json.loads(out.read_text())
    assert found["attention"]["layers"] == [2, 3]
    assert [each["name"] for each in found["cosines"]][:2] == [
        "common words in paraphrases",
        "common words in non-paraphrases",
    ]
    assert found["probes"][0]["scores"].keys() == {"meaning", "context", "baseline"}
    with pytest.raises(ConfigError, match="no such folder: "):
        command("analyze", model_path, "--data", tmp_path / "eval", "--json", tmp_path / "absent" / "out.json")
    with pytest.raises(ConfigError, match=r"no\.txt"):
        command("analyze", model_path, "--data", tmp_path / "eval", "--texts", tmp_path / "no.txt")
