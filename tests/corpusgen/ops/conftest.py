"""Stores of pairs, of triples and pairs, of paragraphs, and of a recipe of another package, each made once."""

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from tests.testing import pair_builds, paragraph_builds, triple_builds

OUTSIDE = "tests.extending.outside:RECIPE"


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """A store of pairs."""
    return pair_builds.make(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="session")
def both(tmp_path_factory):
    """A store of triples and pairs."""
    folder = tmp_path_factory.mktemp("both")
    values = triple_builds.settings(folder, **triple_builds.AND_PAIRS) | {"sample": {"size": 20, "vocabulary": 60}}
    return build(BuildConfig.model_validate(values), LocalExecutor())


@pytest.fixture(scope="session")
def outside(tmp_path_factory):
    """A store of a recipe of another package, whose rows have no target, no scores and no negatives."""
    return pair_builds.make(tmp_path_factory.mktemp("outside"), recipe=OUTSIDE)


@pytest.fixture(scope="session")
def paragraphs(tmp_path_factory):
    """A store of paragraphs."""
    return paragraph_builds.make(tmp_path_factory.mktemp("paragraphs"))
