"""Loops are compiled on any machine."""

from distiller.static.x2static.kernel import _compiled


def test_code_is_compiled_even_if_there_is_no_folder_to_keep_it_in():
    space = {}
    exec("def double(x):\n    return 2 * x", space)  # it is in no file, so numba finds no place for a cache
    assert _compiled(space["double"])(4) == 8
