"""Of several paraphrases the one that teaches most is used, and damaged ones are refused with a reason."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.hypotheses import one_per_row, preferred
from corpusgen.corpus.triples.stages import DAMAGED, AlignTargets
from corpusgen.tables import HYPOTHESES
from corpusgen.text.words import tokenize

TEXT = "The company purchased a boat near Qux in 1955."
VECTORS = {
    "company": (1, 0, 0, 0),
    "firm": (0.9, 0.3, 0, 0),
    "purchased": (0, 1, 0, 0),
    "bought": (0, 0.95, 0.1, 0),
    "acquired": (0, 0.8, 0.3, 0),
    "boat": (0, 0, 1, 0),
    "the": (0, 0, 0, 1),
    "in": (0, 0, 0.1, -1),
    "near": (0.1, 0, 0, -1),
    "well": (0.3, 0.3, 0.3, 0.1),
    "known": (0.3, 0.3, 0.1, 0.3),
}


@pytest.fixture
def align(tmp_path):
    path = tmp_path / "vectors.vec"
    lines = [f"{word} {' '.join(map(str, vector))}" for word, vector in VECTORS.items()]
    path.write_text("\n".join([f"{len(VECTORS)} 4", *lines]) + "\n")

    def run(*paraphrases, target="purchased", **rules):
        stage = AlignTargets(str(path), rules=RuleSettings(same_kind=False, **rules))
        stage.setup()
        starts, ends = tokenize([TEXT]).columns()
        values = [[{"pivot": f"pivot {n}", "paraphrase": text} for n, text in enumerate(paraphrases)]]
        rows = pa.table(
            {
                "text": [TEXT],
                "token_starts": starts,
                "token_ends": ends,
                "target": [target],
                "target_start": pa.array([TEXT.index(target)], pa.int32()),
                "pivot": [values[0][0]["pivot"]],
                "paraphrase": [paraphrases[0]],
            }
        )
        if len(paraphrases) > 1:
            rows = rows.append_column(HYPOTHESES, pa.array(values, HYPOTHESES.type))
        result = stage.process(rows)
        (row,) = (result.rows if result.rows.num_rows else result.rejects).to_pylist()
        return row

    return run


def with_word(word):
    return TEXT.replace("purchased", word)


def word_of(row):
    return row["paraphrase"][row["aligned_start"] : row["aligned_end"]]


def test_the_word_that_differs_and_is_nearest_is_preferred_to_the_translators_first_choice(align):
    row = align(with_word("purchased"), with_word("acquired"), with_word("bought"), with_word("purchases"))
    assert word_of(row) == "bought"
    assert row["pivot"] == "pivot 2"
    assert HYPOTHESES.name not in row
    assert row.get("reason") is None


def test_without_another_word_the_first_paraphrase_stays(align):
    row = align(with_word("purchased"), TEXT.replace("company", "firm"))
    assert (row["paraphrase"], row["pivot"]) == (TEXT, "pivot 0")


def test_a_paraphrase_that_has_lost_the_word_makes_way_for_one_that_has_it(align):
    assert word_of(align(with_word("xx"), with_word("purchased"))) == "purchased"
    row = align(with_word("xx"), with_word("yy"))
    assert (row["reason"], row["paraphrase"]) == ("no aligned word", with_word("xx"))


def test_a_name_keeps_its_own_word(align):
    row = align(TEXT, TEXT.replace("Qux", "Boat"), target="Qux")
    assert row["reason"] == "target has no vector"


@pytest.mark.parametrize(
    ("paraphrase", "unknown"),
    [
        (TEXT.replace("near", "by"), True),
        (TEXT.replace("boat", "boating"), True),
        (TEXT.replace("Qux", "Quux"), False),  # a name
        (TEXT.replace("1955", "the 1950s"), False),  # a number
        (TEXT.replace("near", "near-boat"), False),  # a compound of known words
        (TEXT.replace("near", "near-boating"), True),
        (TEXT.replace("company", "company's"), False),
    ],
)
def test_a_word_that_nobody_knows_is_damage_unless_it_is_a_name_a_number_or_a_compound(align, paraphrase, unknown):
    assert align(paraphrase).get("reason") is None
    assert align(paraphrase, max_unknown_words=0).get("reason") == (DAMAGED if unknown else None)
    assert align(paraphrase, max_unknown_words=1).get("reason") is None


def test_a_damaged_paraphrase_makes_way_for_another(align):
    damaged = with_word("bought").replace("boat", "boating")
    assert word_of(align(damaged, TEXT)) == "bought"
    assert word_of(align(damaged, TEXT, max_unknown_words=0)) == "purchased"
    row = align(damaged, TEXT.replace("boat", "boaty"), max_unknown_words=0)
    assert (row["reason"], row["paraphrase"]) == (DAMAGED, damaged)


HYPOTHESIS = st.tuples(st.booleans(), st.booleans(), st.sampled_from([0.6, 0.7, 0.8, float("nan")]))


@given(st.lists(st.lists(HYPOTHESIS, min_size=1, max_size=4), max_size=6))
def test_every_row_gets_one_of_its_own_and_a_faulty_one_only_if_all_are(rows):
    flat = [(row, *one) for row, several in enumerate(rows) for one in several]
    of_row, faulty, differs, cosines = (np.array(column) for column in zip(*flat, strict=True)) if flat else [[]] * 4
    differs = np.array([bool(d) and not np.isnan(c) for d, c in zip(differs, cosines, strict=True)], bool)
    chosen = preferred(np.array(of_row, int), np.array(faulty, bool), differs, np.array(cosines, float)).tolist()
    assert [flat[index][0] for index in chosen] == list(range(len(rows)))
    for index in chosen:
        row = flat[index][0]
        own = [n for n in range(len(flat)) if flat[n][0] == row]
        fine = [n for n in own if not faulty[n]]
        others = [n for n in fine if differs[n]]
        if others:
            assert index == max(others, key=lambda n: (cosines[n], -n))
        else:
            assert index == (fine or own)[0]


def test_hypotheses_become_rows_with_everything_else_repeated():
    several = [[("p", "a"), ("p", "b")], [("q", "c")]]
    values = [[{"pivot": pivot, "paraphrase": text} for pivot, text in row] for row in several]
    rows = pa.table({"id": [1, 2], "pivot": ["p", "q"], "paraphrase": ["a", "c"]})
    table, of_row = one_per_row(rows.append_column(HYPOTHESES, pa.array(values, HYPOTHESES.type)))
    assert of_row.tolist() == [0, 0, 1]
    assert table.to_pydict() == {"id": [1, 1, 2], "pivot": ["p", "p", "q"], "paraphrase": ["a", "b", "c"]}
