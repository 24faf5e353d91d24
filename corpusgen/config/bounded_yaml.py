"""A YAML parser for settings: bounded size, no duplicate keys, no shared values.

Full YAML has traps: a few lines of aliases can expand to gigabytes, only one of two equal keys counts, and an alias
makes two sections one object, so that changing one changes the other.
"""

from __future__ import annotations

from typing import Any

import yaml

LARGEST = 1 << 20
"""The most characters in a file, before and after its aliases are expanded: room for ten thousand paths."""
DEEPEST = 50
"""The most levels of nesting; settings have five."""
LONGEST_VALUE = 10_000
"""The most characters in one value: longer than any path, and short enough to parse as a number in no time."""
_LARGEST_NUMBER = 64  # bits
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


class Refused(Exception):  # noqa: N818 - names what happened to the text
    """The error for text that may be valid YAML, but that no settings file needs."""


def parse(text: str) -> Any:
    """Return the value of a YAML text; raise Refused if it is too large or a trap, yaml.YAMLError if it is not YAML."""
    if len(text) > LARGEST:
        raise Refused(f"longer than {LARGEST:,} characters; is this a file of settings?")
    loader = _Loader(text)
    try:
        return _with_nothing_shared(loader.get_single_data())
    except ValueError as error:  # from escapes and directives; errors in values name their line
        raise yaml.YAMLError(f"an invalid escape or directive: {error}") from error
    except RecursionError:
        raise Refused("too many aliases merge one another") from None
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """A loader that counts characters with aliases expanded, and refuses the text before it builds any value."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._counts: list[int] = []  # characters so far, for each node being composed
        self._anchored: dict[str, int] = {}  # characters that each alias expands to

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
                raise _refused(event, f"*{event.anchor} refers to a value that contains it")
            size = self._anchored[event.anchor]
        elif isinstance(node, yaml.ScalarNode):
            size += _checked_length(node)
        if event.anchor:
            self._anchored[event.anchor] = size
        if self._counts:
            self._counts[-1] += size
        if size > LARGEST:
            raise _refused(event, f"longer than {LARGEST:,} characters with its aliases expanded")
        return node

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == _MERGE:
                continue
            if key.tag != _TEXT:
                written = f"the key {key.value}" if isinstance(key, yaml.ScalarNode) else "a key"
                raise _refused(key, f"{written} is not a string; if you mean a string, put it in quotes")
            if key.value in lines:
                raise _refused(key, f"{key.value!r} is given twice, first in line {lines[key.value]}")
            lines[key.value] = _line(key)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # 2024-13-01 looks like a date but is not one.
            problem = f"cannot read a value: {error}; if you mean a string, put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error
        if isinstance(value, int) and value.bit_length() > _LARGEST_NUMBER:
            raise _refused(node, f"a number of more than {_LARGEST_NUMBER} bits")
        return value


def _checked_length(node: yaml.ScalarNode) -> int:
    length = len(node.value)
    if length > LONGEST_VALUE:
        raise _refused(node, f"a value of more than {LONGEST_VALUE:,} characters")
    if "\0" in node.value or any("\ud800" <= character <= "\udfff" for character in node.value):
        raise _refused(node, "a value has a character that is not allowed (NUL, or half of a surrogate pair)")
    return length


def _refused(marked: Any, problem: str) -> Refused:
    return Refused(f"line {_line(marked)}: {problem}")


def _line(marked: Any) -> int:
    return int(marked.start_mark.line) + 1


def _with_nothing_shared(value: Any) -> Any:
    """Return a copy with aliases expanded, so that changing one section changes no other."""
    if isinstance(value, dict):
        return {key: _with_nothing_shared(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_nothing_shared(one) for one in value]
    return value
