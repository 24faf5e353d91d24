"""Without numba a user learns what to install."""

from tests.testing.without_extras import run_without


def test_without_numba_the_message_names_the_extra():
    ended = run_without({"numba"}, "import distiller.static.settings\nimport distiller.static.x2static.trainer")
    assert ended.stderr.splitlines()[-1] == (
        "corpusgen.extras.MissingPackageError: training X2Static needs numba: pip install 'wicdistil[static]'"
    )
