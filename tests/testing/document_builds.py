"""Everything a build of pairs needs, tiny: documents on a topic each, written down for every kind of source."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq

TOPICS = (
    ("river", "bridge", "ferry", "flood", "valley", "mill"),
    ("market", "merchant", "price", "coin", "basket", "bridge"),
    ("castle", "tower", "garden", "soldier", "wall", "valley"),
    ("harbour", "ship", "storm", "sailor", "ferry", "price"),
    ("school", "teacher", "lesson", "garden", "window", "storm"),
)
VERBS = ("crossed", "watched", "painted", "reached", "followed", "covered", "repaired", "admired", "described", "lost")
ADJECTIVES = ("old", "quiet", "narrow", "famous", "wooden", "distant", "broken", "bright")
OPENINGS = ("In summer", "After the war", "Long ago", "Every morning", "At first", "Much later", "In those days")
LINKS = ("while", "because", "although", "until", "before")
FRAME = "{} a {} {} {} the {} {} near our {} {} {} some {} people {} that {} {} again."
BLOCK = 2048
"""Bytes that a document takes in a file of plain text, padded with empty lines."""

KINDS = ("mediawiki", "wikiextractor", "jsonl", "parquet", "text")


def documents(number=40, paragraphs=3, seed=0):
    """Documents, each a list of paragraphs of two sentences."""
    chance = random.Random(seed)
    return [
        [" ".join(_sentence(chance, TOPICS[document % len(TOPICS)]) for _ in range(2)) for _ in range(paragraphs)]
        for document in range(number)
    ]


def _sentence(chance, nouns):
    a, b, c, d = chance.sample(nouns, 4)
    verbs = chance.sample(VERBS, 2)
    adjectives = chance.sample(ADJECTIVES, 5)
    return FRAME.format(
        chance.choice(OPENINGS), adjectives[0], a, verbs[0], adjectives[1], b, adjectives[2], c,
        chance.choice(LINKS), adjectives[3], verbs[1], adjectives[4], d,
    )  # fmt: skip


def write(folder, kind, documents):
    """A file of this kind with all documents; its path."""
    path = folder / f"documents.{kind}"
    texts = ["\n".join(paragraphs) for paragraphs in documents]
    if kind == "parquet":
        columns = {"id": [str(n) for n in range(len(texts))], "title": [f"T{n}" for n in range(len(texts))]}
        pq.write_table(pa.table({**columns, "text": texts}), path, row_group_size=10)
        return str(path)
    write_one = {"mediawiki": _page, "wikiextractor": _doc, "jsonl": _json, "text": _block}[kind]
    body = "".join(write_one(n, text) for n, text in enumerate(texts))
    path.write_text(f"<mediawiki>\n{body}</mediawiki>\n" if kind == "mediawiki" else body)
    return str(path)


def _page(number, text):
    text = text.replace("\n", "\n\n")
    return (
        f"  <page>\n    <title>T{number}</title>\n    <ns>0</ns>\n    <id>{number}</id>\n    <revision>\n"
        f'      <id>9{number}</id>\n      <text xml:space="preserve">{text}</text>\n    </revision>\n  </page>\n'
    )


def _doc(number, text):
    return f'<doc id="{number}" url="" title="T{number}">\nT{number}\n\n{text}\n</doc>\n'


def _json(number, text):
    return json.dumps({"id": number, "title": f"T{number}", "text": text}) + "\n"


def _block(number, text):
    assert len(text.encode()) < BLOCK, "a document must fit into its block"
    return text + "\n" * (BLOCK - len(text.encode()))


def settings(folder, kind="jsonl", recipe="discourse", root="store", workers=None, **others):
    """The settings of a build in a folder that then has the documents."""
    path = folder / f"documents.{kind}"
    if not path.exists():
        write(folder, kind, documents())
    limits = {"min_workers": workers, "max_workers": workers}
    names = ("read", "segment", "filter", "merge", "repeats", "choose", "fetch", "join") if workers else ()
    return {
        "store": str(folder / root),
        "recipe": recipe,
        "source": {"kind": kind, "paths": [str(path)], "unit_bytes": 4 * BLOCK},
        "language": {"identify": False},
        "sample": {"size": 100, "vocabulary": 100, "drop_top_share": 0},
        "discourse": {"size": 150, "unit_pairs": 40, "max_overlap": 0.8, "boilerplate_documents": None},
        "run": {"workers": dict.fromkeys(names, limits)},
        **others,
    }
