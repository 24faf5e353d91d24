"""YAML as settings are written in it: of bounded size, every key once, every value its own.

YAML can do more, and some of it is a trap: a few lines of aliases stand for gigabytes, a key that is there twice counts
once, an alias makes two sections one, so that changing one changes the other.
"""

from __future__ import annotations

from typing import Any

import yaml

LARGEST = 1 << 20
"""Characters of a file, and of what it stands for once every alias is written out: ten thousand paths fit."""
DEEPEST = 50
"""Levels of nesting; settings have five."""
LONGEST_VALUE = 10_000
"""Characters of a single value: longer than any path, and numbers of such length are still read in no time."""
_LARGEST_NUMBER = 64  # bits
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


class Refused(Exception):  # noqa: N818 - it is what happened to the text
    """It may be YAML, but settings are never written so."""


def parse(text: str) -> Any:
    """What the text says; Refused if it is too much or a trap, yaml.YAMLError if it is not YAML."""
    if len(text) > LARGEST:
        raise Refused(f"more than {LARGEST:,} characters: settings are shorter")
    loader = _Loader(text)
    try:
        return _with_nothing_shared(loader.get_single_data())
    except ValueError as error:  # from escapes and directives; those of values are named with their line
        raise yaml.YAMLError(f"an escape or a directive means nothing: {error}") from error
    except RecursionError:
        raise Refused("one alias merges the next, too many times") from None
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Counts what it composes, with what each alias stands for, and refuses before anything is built of it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._counts: list[int] = []  # characters so far, of each node that is under way
        self._anchored: dict[str, int] = {}  # characters that an alias stands for

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        alias = isinstance(event, yaml.AliasEvent)
        self._counts.append(0)
        if len(self._counts) > DEEPEST:
            raise _refused(event, f"nested more than {DEEPEST} levels deep")
        node = super().compose_node(parent, index)
        size = self._counts.pop() + 1
        if alias:
            if event.anchor not in self._anchored:
                raise _refused(event, f"*{event.anchor} stands for something that it is a part of")
            size = self._anchored[event.anchor]
        elif isinstance(node, yaml.ScalarNode):
            size += _checked_length(node)
        if event.anchor:
            self._anchored[event.anchor] = size
        if self._counts:
            self._counts[-1] += size
        if size > LARGEST:
            raise _refused(event, f"with its aliases written out it has more than {LARGEST:,} characters")
        return node

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == _MERGE:
                continue
            if key.tag != _TEXT:
                written = f"the key {key.value}" if isinstance(key, yaml.ScalarNode) else "a key"
                raise _refused(key, f"{written} is no word; where one is meant, put it in quotes")
            if key.value in lines:
                raise _refused(key, f"{key.value!r} is there twice, first in line {lines[key.value]}")
            lines[key.value] = _line(key)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # 2024-13-01 looks like a date, and is none.
            problem = f"a value is not what it looks like: {error}; put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error
        if isinstance(value, int) and value.bit_length() > _LARGEST_NUMBER:
            raise _refused(node, f"a number of more than {_LARGEST_NUMBER} bits")
        return value


def _checked_length(node: yaml.ScalarNode) -> int:
    length = len(node.value)
    if length > LONGEST_VALUE:
        raise _refused(node, f"a value of more than {LONGEST_VALUE:,} characters")
    if "\0" in node.value or any("\ud800" <= character <= "\udfff" for character in node.value):
        raise _refused(node, "a value has a character that cannot be in a text (NUL, or half of a pair)")
    return length


def _refused(place: Any, problem: str) -> Refused:
    return Refused(f"line {_line(place)}: {problem}")


def _line(place: Any) -> int:
    return int(place.start_mark.line) + 1


def _with_nothing_shared(value: Any) -> Any:
    """A copy in which aliases are written out, so that to change one section changes no other."""
    if isinstance(value, dict):
        return {key: _with_nothing_shared(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_nothing_shared(one) for one in value]
    return value
