"""Whatever the rules and the paraphrase: what explain says was chosen is what the stages choose when asked again."""

import math
import re
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.positives import looks_like
from corpusgen.corpus.triples.stages import AlignTargets
from corpusgen.engine import Result, Stage
from corpusgen.models.lexical import same_kind
from corpusgen.ops.inspect.explain import explain
from corpusgen.ops.inspect.judgements import CHOSEN
from corpusgen.ops.inspect.remake import Workshop
from corpusgen.ops.inspect.replay import replay_group
from corpusgen.ops.inspect.stored import Stored
from tests.corpusgen.ops.inspect.support import rows_of
from tests.testing.triple_builds import NOUNS, PLACES, VERBS

# No threshold is one that a cosine of the vectors could just touch.
COSINES = st.sampled_from([-1.0, 0.10333, 0.30333, 0.50333, 0.70333])
PROBABILITIES = st.sampled_from([0.0, 0.003, 0.02])
RULES = st.fixed_dictionaries(
    {},
    optional={
        "preset": st.sampled_from(["strict", "paper"]),
        "aligner": st.sampled_from(["cosine", "zscore"]),
        "align_min_cosine": COSINES,
        "align_max_score": st.sampled_from([-2.00333, -1.00333, -0.30333]),
        "enrich": st.booleans(),
        "enrich_min_cosine": COSINES,
        "context_min_cosine": st.sampled_from([None, 0.20333, 0.60333]),
        "enrich_min_probability": PROBABILITIES,
        "negatives": st.sampled_from(["threshold", "mean_distance"]),
        "negative_max_cosine": COSINES,
        "negative_min_probability": PROBABILITIES,
        "negative_min_share": PROBABILITIES,
        "negative_min_agreement": PROBABILITIES,
        "similar_edit_distance": st.integers(0, 4),
        "substitution_cost": st.sampled_from([1, 2]),
        **{name: st.booleans() for name in ("same_stem", "same_kind", "in_vocabulary", "same_class", "unrepeated")},
    },
)
PARAPHRASES = st.lists(
    st.sampled_from([*NOUNS, *VERBS, *PLACES, "the", "near", "of", "zebra"]), min_size=1, max_size=12
)


@dataclass
class Given(Stage):
    """Instead of a translator: this paraphrase."""

    name = "translate"
    needs = ("text",)
    adds = ("pivot", "paraphrase")
    paraphrase: str = ""

    def process(self, rows):
        for column in self.adds:
            rows = rows.append_column(column, pa.array([self.paraphrase] * rows.num_rows, pa.string()))
        return rows


@pytest.fixture(scope="module")
def workshop(made):
    return Workshop(made)


@pytest.fixture(scope="module")
def rows(made):
    return [Stored(made, table, row) for table in ("triples", "rejects") for row in rows_of(made, table)]


def with_rules(workshop, rules, paraphrase):
    """The stages of the store by other rules; with a paraphrase, as if it came from a round trip."""
    (mask,) = workshop.stages
    rules = RuleSettings.model_validate(rules)
    stages = [replace(mask, rules=rules)]
    if paraphrase is not None:
        align = AlignTargets(mask.vectors, mask.vector_words, mask.max_words, rules, mask.language)
        stages = [Given(paraphrase), align, *stages]
    for stage in stages:
        stage.setup()
    return SimpleNamespace(
        **{"stages": stages, "targets": workshop.targets, "models": {}, "same_code": True, "note": None},
        config=SimpleNamespace(rules=rules),
    )


def asked_again(workshop, row):
    """What `process` of each stage gives, one after the other; the last row and, if it was rejected, why."""
    table = workshop.targets([row])
    for stage in workshop.stages:
        result = stage.process(table)
        result = result if isinstance(result, Result) else Result(result)
        if not result.rows.num_rows:
            rejected = result.rejects.to_pylist()[0]
            return rejected, rejected["reason"]
        table = result.rows
    return table.to_pylist()[0], None


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), rules=RULES, paraphrase=st.none() | PARAPHRASES)
def test_what_is_said_to_be_chosen_is_what_is_chosen(workshop, rows, data, rules, paraphrase):
    stored = data.draw(st.sampled_from(rows))
    if paraphrase is not None:
        where = data.draw(st.integers(0, len(paraphrase)))
        paraphrase[where:where] = data.draw(st.sampled_from([[], [stored.row["target"]]]))
        paraphrase = f"So {' '.join(paraphrase)}."
    other = with_rules(workshop, rules, paraphrase)
    found = explain(stored, other)
    row, reason = asked_again(other, stored.row)

    if paraphrase is not None:
        chosen = [word for word in found.alignment if word.verdict == CHOSEN]
        assert [word.start for word in chosen] == [row["aligned_start"]][: row["aligned_start"] is not None]
        expected = verdicts(stored.row, workshop.targets([stored.row]), paraphrase, other.config.rules, other.stages[1])
        assert [(word.word, word.verdict) for word in found.alignment] == expected
    if reason in ("no aligned word", "target has no vector"):
        assert (found.positive, found.negative, found.now.outcome) == (None, None, "reject")
        return
    assert (found.now.outcome, found.now.row.get("reason")) == ("reject" if reason else "triple", reason)
    assert (found.negative.chosen is None) == (row["negative_word"] is None)
    if row["negative_word"] is not None:
        assert found.negative.chosen.word == row["negative_word"].lower()
    if row["positive_rule"] in (None, "aligned"):
        assert found.positive.chosen is None
    else:
        assert found.positive.chosen.word == row["positive_word"].lower()
    for choice in (found.positive, found.negative):
        assert [candidate.verdict for candidate in choice.candidates].count(CHOSEN) <= 1

    # And a store with what was chosen comes out the same.
    table = "rejects" if reason else "triples"
    again = {**stored.row, **found.now.row, "unit": stored.row["unit"]}
    (one,) = replay_group([Stored(stored.store, table, again)], other)
    assert one.same, one.differences


def verdicts(row, targets, paraphrase, rules, stage):
    """What becomes of each word of the paraphrase: Algorithm 4.1 and the published rule, spelled out word by word."""
    tokens = targets.to_pylist()[0]
    spans = zip(tokens["token_starts"], tokens["token_ends"], strict=True)
    originals = [(start, row["text"][start:end]) for start, end in spans if row["text"][start].isalnum()]
    target = [start for start, _ in originals].index(row["target_start"])
    left = [word.lower() for _, word in originals]
    right = [word.lower() for word in re.findall(r"\w+", paraphrase)]
    cosine = cosines_of(stage.vectors)
    names = [originals[taker][1] if taker is not None else None for taker in takers(left, right, target, cosine)]
    of_target = [round(cosine(left[target], word), 5) for word in right]

    def why_not(failed, index):
        if failed:
            return "too far"
        if rules.aligner == "cosine" and rules.same_kind and not same_kind(right[index], left[target], "en"):
            return "a function word for a content word, or the reverse"
        return f"taken by {names[index]!r}" if names[index] else None

    if rules.aligner == "cosine":
        said = [why_not(of_target[index] < rules.align_min_cosine, index) for index in range(len(right))]
        better = [-value for value in of_target]
    elif alike := [index for index, word in enumerate(right) if looks_like(word, row["target"], rules, "en")]:
        said = [None if index in alike else "another one looks like the target" for index in range(len(right))]
        better = [abs(index - target) for index in range(len(right))]
    else:
        better = [standing(left, target, word, cosine) for word in right]
        said = [why_not(score > rules.align_max_score, index) for index, score in enumerate(better)]
    fit = [index for index, verdict in enumerate(said) if verdict is None]
    best = min(fit, key=lambda index: better[index], default=None)
    by_letters = rules.aligner == "zscore" and alike
    later = "looks like the target, but stands farther away" if by_letters else "less similar than the one chosen"
    words = re.findall(r"\w+", paraphrase)
    return [
        (word, CHOSEN if index == best else verdict or later)
        for index, (word, verdict) in enumerate(zip(words, said, strict=True))
    ]


def takers(left, right, target, cosine):
    """Of each word of the paraphrase which other word of the original is its mutual best match, if any."""
    found = []
    for column, word in enumerate(right):
        row = max(range(len(left)), key=lambda index: cosine(left[index], word))
        back = max(range(len(right)), key=lambda index: cosine(left[row], right[index]))
        found.append(row if back == column and row != target else None)
    return found


def standing(left, target, word, cosine):
    """The distance of the target to a word, as a standard score among those of all words of the original."""
    distances = [1 - cosine(other, word) for other in left]
    mean = sum(distances) / len(distances)
    deviation = math.sqrt(sum((distance - mean) ** 2 for distance in distances) / len(distances))
    return round((distances[target] - mean) / deviation, 5) if round(deviation, 5) > 0 else math.inf


def cosines_of(path):
    """Read from the file itself; the same two words have the same cosine wherever they stand."""
    with open(path) as file:
        lines = file.read().splitlines()[1:]
    vectors = {word: np.array(numbers, float) for word, *numbers in map(str.split, lines)}
    units = {word: vector / np.linalg.norm(vector) for word, vector in vectors.items()}

    def cosine(a, b):
        a, b = sorted((a, b))
        return float(units[a] @ units[b]) if a in units and b in units else 0.0

    return cosine
