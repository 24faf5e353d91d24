"""A build of pairs, tiny: eight short documents, in which each guard has something to do."""

import json

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor

DOCUMENTS = {
    "River": [
        "The old bank of the river is covered with reeds.",
        "Many herons nest along the bank in early spring.",
        "A flood carried the boats far into the valley.",
        "After the flood people repaired every bridge here.",
        "The parish keeps a register of such years.",
    ],
    "Money": [
        "The bank lent money to almost every farmer here.",
        "A second bank opened beside the market in autumn.",
        "Farmers paid their money back after a good harvest.",
        "The harvest of that year was the largest ever seen.",
        "The parish keeps a register of such years.",
    ],
    "Museum": [
        "The museum of natural history stands near the station.",
        "Its rooms of natural history attract many visitors.",
        "The history of the house itself is less known.",
        "Visitors reach the museum by a narrow bridge.",
        "The parish keeps a register of such years.",
    ],
    "Storm": [
        "A storm broke the roof of the market hall.",
        "Nobody remembered a storm of such force before.",
        "The roof was covered again within a few weeks.",
        "Within weeks the market opened its doors again.",
        "The wind carried leaves into every open window.",
        "A cold wind blew from the valley all night.",
    ],
    "Painter": [
        "The painter sold her first picture to a museum.",
        "Another painter bought a house near the station.",
        "Marta visited the station to draw passing trains.",
        "In later years Marta taught drawing at the museum.",
        "The trains appear in many a picture of that time.",
    ],
    "Garden": [
        "The garden behind the house was full of herbs.",
        "Herbs from this garden were sold at the market.",
        "Visitors may pick up leaves in the garden in autumn.",
        "They pick up seeds there too when spring comes.",
        "Leaves cover the paths until early spring comes.",
    ],
    "Mill": [
        "The mill stood on the left side of the river.",
        "The mill stood on the right side of the river.",
        "Farmers brought their harvest to it every autumn.",
        "In autumn the water of the river was often low.",
        "Low water stopped the wheel for several weeks.",
    ],
    "School": [
        "The school had two rooms and a small garden.",
        "Children walked to school over the narrow bridge.",
        "The bridge was closed when water covered the road.",
        "Then the children stayed at home for several weeks.",
    ],
}


def config(folder, documents=DOCUMENTS, name="documents.jsonl", **others):
    """The settings of a build whose source is in the folder: one object a line, the shape of a small wiki."""
    path = folder / name
    if not path.exists():
        lines = [
            json.dumps({"id": str(number), "title": title, "text": "\n".join(sentences)})
            for number, (title, sentences) in enumerate(documents.items())
        ]
        path.write_text("\n".join(lines) + "\n")
    values = {
        "store": str(folder / "store"),
        "recipe": "discourse",
        "source": {"kind": "jsonl", "paths": [str(path)], "unit_bytes": 1000},
        "language": {"identify": False},
        "filters": {"min_words": 5},
        "sample": {"vocabulary": 300, "drop_top_share": 0},
        "discourse": {"size": 40, "unit_pairs": 10, "boilerplate_documents": 2},
    }
    return BuildConfig.model_validate(values | others)


def make(folder, **others):
    """A store of pairs."""
    folder.mkdir(exist_ok=True)
    return build(config(folder, **others), LocalExecutor())
