"""Words that the original accounts for are nobody's business; of the others, the masked LM must find none absurd."""

import pyarrow as pa
import pytest

from corpusgen.config.build import MaskedSettings
from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.choose import Criteria
from corpusgen.corpus.triples.damage import unaccounted_words
from corpusgen.corpus.triples.stages import ABSURD, AlignTargets, MakeTriples, ScoredWord
from corpusgen.text.words import tokenize
from tests.testing import triple_builds as support

TEXT = "The company purchased a boat near Qux in 1955."
VECTORS = {
    "company": (1, 0, 0, 0),
    "firm": (0.9, 0.3, 0, 0),
    "purchased": (0, 1, 0, 0),
    "boat": (0, 0, 1, 0),
    "quarrel": (0, 0, 0, 1),
    "the": (0, 0, 0, 1),
}


def table(texts, target, paraphrases):
    starts, ends = tokenize(texts).columns()
    at = [text.index(target) for text in texts]
    return pa.table(
        {
            "text": texts,
            "token_starts": starts,
            "token_ends": ends,
            "target": [target] * len(texts),
            "target_start": pa.array(at, pa.int32()),
            "target_end": pa.array([start + len(target) for start in at], pa.int32()),
            "paraphrase": paraphrases,
        }
    )


@pytest.fixture(scope="module")
def unaccounted(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "vectors.vec"
    lines = [f"{word} {' '.join(map(str, vector))}" for word, vector in VECTORS.items()]
    path.write_text("\n".join([f"{len(VECTORS)} 4", *lines]) + "\n")

    def find(paraphrase, **rules):
        stage = AlignTargets(str(path), rules=RuleSettings(**rules))
        stage.setup()
        pairs = stage.pairs(table([TEXT], "purchased", [paraphrase]))
        found = unaccounted_words(pairs, Criteria(stage.rules, "en"))
        for one in found:
            tokens = pairs.paraphrases.tokens
            assert paraphrase[tokens.starts[one.number] : tokens.ends[one.number]] == one.word
        return [one.word for one in found]

    return find


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("boat", "quarrel", ["quarrel"]),  # similar to "the" alone, a function word
        ("company", "firm", []),  # means the same
        ("purchased", "purchases", []),  # looks the same, though nobody knows it
        ("boat", "zorblax", ["zorblax"]),
        ("near", "beside", []),  # a function word
        ("near", "beyond the", []),
        ("Qux", "Quux", []),  # a name
        ("1955", "the 1950s", []),
        ("boat", "company-boat", []),  # a compound of words that are there
        ("boat", "boat", []),
    ],
)
def test_a_word_is_accounted_for_by_one_that_means_or_looks_the_same(unaccounted, old, new, found):
    assert unaccounted(TEXT.replace(old, new)) == found


def test_how_similar_is_that_of_aligned_words(unaccounted):
    paraphrase = TEXT.replace("company", "firm")
    assert unaccounted(paraphrase, align_min_cosine=0.94) == []
    assert unaccounted(paraphrase, align_min_cosine=0.96) == ["firm"]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """The stage that makes triples, with a random masked LM, and rules that any word passes."""
    folder = tmp_path_factory.mktemp("models")
    vectors = support.write_vectors(folder / "vectors.vec")
    masked = MaskedSettings(model=support.write_masked_lm(folder / "masked"))

    def stage(least):
        rules = RuleSettings(
            preset="paper",
            enrich=False,
            align_min_cosine=1.0,
            negative_max_cosine=1.0,
            negative_min_probability=0.0,
            similar_edit_distance=0,
            paraphrase_min_probability=least,
        )
        made = MakeTriples(vectors, rules=rules, masked=masked)
        made.setup()
        return made

    return stage


@pytest.fixture(scope="module")
def rows():
    texts = support.sentences(6)
    new = [next(noun for noun in support.NOUNS if noun not in text) for text in texts[:3]]
    paraphrases = [text.replace("tall", word) for text, word in zip(texts, new, strict=False)] + texts[3:]
    table_ = table(texts, "willows", paraphrases)
    at = [text.index("willows") for text in paraphrases]
    for name, shift in (("aligned_start", 0), ("aligned_end", len("willows"))):
        table_ = table_.append_column(name, pa.array([start + shift for start in at], pa.int32()))
    return table_.append_column("alignment", pa.array([1.0] * len(at), pa.float32()))


def test_a_paraphrase_with_an_improbable_word_is_a_reject(make, rows):
    assert make(None).process(rows).rows.num_rows == 6
    assert make(0.0).process(rows).rows.num_rows == 6
    result = make(1.0).process(rows)
    assert result.rejects["reason"].to_pylist() == [ABSURD] * 3
    assert result.rejects["text"].to_pylist() == rows["text"].to_pylist()[:3]
    assert result.rows["text"].to_pylist() == rows["text"].to_pylist()[3:]


def test_the_probability_decides_and_is_that_of_the_masked_word(make, rows):
    scored = make(1.0).new_words(rows)
    paraphrases = rows["paraphrase"].to_pylist()
    assert all(f" {word.word} willows" in text for (word,), text in zip(scored[:3], paraphrases, strict=False))
    assert scored[3:] == [[], [], []]
    lowest = [word.probability for (word,) in scored[:3]]
    assert 0 < min(lowest) < max(lowest) < 1
    stage = make(max(lowest))
    refused = [reason == ABSURD for reason in stage.process(rows).rejects["reason"].to_pylist()]
    assert sum(refused) == sum(one < max(lowest) for one in lowest) == 2
    assert scored[0] == [ScoredWord(scored[0][0].word, lowest[0], improbable=True)]


def test_without_the_rule_the_stage_is_the_same_as_ever_and_asks_nothing(make, rows):
    assert "paraphrase_min_probability" not in RuleSettings().content()
    assert RuleSettings(paraphrase_min_probability=0.001).content()["paraphrase_min_probability"] == 0.001
    assert make(None).new_words(rows) == [[]] * 6
    assert make(None).identity() != make(0.001).identity()
    assert "paraphrase_min_probability" not in str(make(None).identity())


def test_without_a_paraphrase_there_is_nothing_to_refuse(make, rows):
    assert make(1.0).new_words(rows.drop_columns(["paraphrase"])) == [[]] * 6
    assert make(1.0).new_words(rows.slice(0, 0)) == []
