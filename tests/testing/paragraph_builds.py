"""A build of paragraphs, tiny: a few of each kind of paragraph that is kept, and of each that is not."""

import json

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor

KEPT = [
    "The U.S. grew 3.5 percent in May. Nobody saw it coming, and 1,000 mills stood still. Then the river fell again.",
    "Many herons nest along the bank in early spring. A flood carried the boats far off! Who would repair the bridge?",
    "The bank lent money to every farmer of the valley. They paid it back after the harvest. The river fell again.",
    "“Leave the garden,” she said. Visitors pick up leaves there in autumn, e.g. in October. They pick up seeds too.",
]
NOT_KEPT = {
    "too short": "The mill stood. It was old. It fell.",
    "too few sentences": "The museum of natural history stands near the station, and its rooms attract many visitors "
    "from the valley. They are open.",
    "damaged": "The museum lost \ufffd pictures. They were old. Nobody knows today who painted them, or for whom, or "
    "where they might be now.",
    "other language": "Das Museum steht am Bahnhof der kleinen Stadt. Es hat viele Besucher aus dem Tal. Sie kommen "
    "im Sommer mit dem Zug aus der Stadt.",
}


def texts(number=12):
    """Some articles, each with a paragraph of every kind and one that is its own."""
    return [
        "\n".join([KEPT[n % 4], *NOT_KEPT.values(), KEPT[(n + 1) % 4].replace("again", f"again in {1900 + n}")])
        for n in range(number)
    ]


def config(folder, name="articles.jsonl", number=12, **others):
    """The settings of a build whose source is in the folder."""
    path = folder / name
    if not path.exists():
        rows = ({"id": str(n), "title": f"Article {n}", "text": text} for n, text in enumerate(texts(number)))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "store": str(folder / "store"),
        "recipe": "paragraphs",
        "source": {"kind": "jsonl", "paths": [str(path)], "unit_bytes": 3000},
        "paragraphs": {"min_characters": 100, "min_count": 3},
    }
    return BuildConfig.model_validate(values | others)


def make(folder, **others):
    """A store of paragraphs."""
    folder.mkdir(exist_ok=True)
    return build(config(folder, **others), LocalExecutor())
