import pytest

from corpusgen.config.build import BuildConfig
from tests.testing import triple_builds as support


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with texts, vectors and a masked LM for a build of triples; nothing is built there."""
    folder = tmp_path_factory.mktemp("doctor")
    support.settings(folder)
    return folder


@pytest.fixture
def config(made, tmp_path):
    """The settings of a build with all it needs, into a store of the test's own; changed by keywords."""

    def changed(**others):
        return BuildConfig.model_validate({**support.settings(made), "store": str(tmp_path / "store"), **others})

    return changed
