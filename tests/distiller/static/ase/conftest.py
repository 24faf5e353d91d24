"""A tiny corpus of paragraphs."""

import pytest

from tests.testing import paragraph_builds


@pytest.fixture(scope="package")
def corpus(tmp_path_factory):
    return paragraph_builds.make(tmp_path_factory.mktemp("paragraphs")).url
