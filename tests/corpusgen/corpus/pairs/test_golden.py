"""A corpus of pairs as it was: whatever is made faster, the pairs stay the same, and so do the ids of units.

After a change that is meant to give other pairs, `python -m tests.corpusgen.corpus.pairs.test_golden` writes the file
anew; its difference belongs into the review, and a higher `version` of the stage into the change.
"""

import json
import sys
import tempfile
from pathlib import Path

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.corpus.pairs import guards
from corpusgen.corpus.recipes import RECIPES
from corpusgen.engine import LocalExecutor
from corpusgen.io.hashing import content_hash
from corpusgen.store import CommittedTable
from tests.testing import document_builds as support

FILE = Path(__file__).parent / "golden" / "discourse.json"
TABLES = (("repeats", "repeats"), ("pairing", "choice"), ("fetch", "sentences"), ("pairs", "pairs"))
DISCOURSE = {"size": 45, "per_document": 2, "max_overlap": 0.8, "boilerplate_documents": 3, "unit_pairs": 12}
DOCUMENTS = 7
TEMPLATE = (
    "According to the census of {} the old bridge was still of some use to people who lived near the river. "
    "Nobody had ever seen a larger census than this one when it was read out to all of them in spring."
)
FOLDERS = ("source", "negative_source")  # columns that name the file with its folder
NOT_HERE = ("unit",)  # follows from the bytes of Parquet files, which another pyarrow writes differently


def found(folder):
    """The rows of every table of the recipe, in order, what was rejected, and the fingerprint of every pass."""
    documents = support.documents(DOCUMENTS)
    support.write(folder, "jsonl", [[*texts, TEMPLATE.format(1900 + n)] for n, texts in enumerate(documents)])
    config = BuildConfig.model_validate(support.settings(folder, discourse=DISCOURSE))
    totals = {}
    store = build(config, LocalExecutor(), on_pass=totals.__setitem__)
    tables = {"/".join(name): CommittedTable(store, *name).to_table() for name in TABLES}
    return {
        "fingerprints": {
            name: content_hash({"pass": name, "stages": [stage.identity() for stage in recipe.stages(config, store)]})
            for name, recipe in RECIPES["discourse"].passes.items()
        },
        "types": {f"{name}/{field.name}": str(field.type) for name, table in tables.items() for field in table.schema},
        "rejected": dict(totals["repeats"].stages["repeats"].rejected),
        **{
            name: {
                column: [_plain(column, value) for value in table[column].to_pylist()]
                for column in table.column_names
                if column not in NOT_HERE
            }
            for name, table in tables.items()
        },
    }


def _plain(column, value):
    if column in FOLDERS and value is not None:
        return Path(value).name
    return round(value, 6) if isinstance(value, float) else value


def test_the_pairs_are_those_they_were(tmp_path):
    expected, now = json.loads(FILE.read_text()), found(tmp_path)
    assert now.keys() == expected.keys()
    for name in expected:
        assert now[name] == expected[name], name


def test_the_golden_pairs_show_every_kind_of_row():
    tables = json.loads(FILE.read_text())
    assert None in tables["repeats/repeats"]["second"]
    assert set(tables["pairing/choice"]["round"]) == {1, 2}
    assert guards.BOILERPLATE in tables["rejected"]
    assert len(tables["pairs/pairs"]["id"]) == DISCOURSE["size"]
    assert None in tables["pairs/pairs"]["negative"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        tables = found(Path(place))
    FILE.parent.mkdir(exist_ok=True)
    lines = [
        f" {json.dumps(name)}: {{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in table.items()) + "}"
        for name, table in tables.items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    sys.stdout.write(f"{len(tables['pairs/pairs']['id'])} pairs\n")
