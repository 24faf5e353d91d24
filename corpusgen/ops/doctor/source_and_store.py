"""Checks of the source and the store: readable, writable, large enough, with the right clock."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import passes_of
from corpusgen.corpus.recipes import recipe_of
from corpusgen.io.files import open_files
from corpusgen.ops.doctor.findings import Line, amount
from corpusgen.sources.kinds import source_kind
from corpusgen.sources.locate import SourceFile, find_files, open_binary
from corpusgen.store import Store
from corpusgen.store.check import try_out

# What a store takes, measured on 41 MB of extracted Wikipedia and 6 MB of a dump: for each byte of text, 0.5 as
# sentences and 0.25 as candidates; one sentence per 330 bytes, and some more bytes for each that is sampled.
_TEXT_SHARE = 0.8
_BYTES_A_SENTENCE = 330
_BYTES_A_TARGET = 180
_BYTES_A_TRIPLE = 350
_EXPANSION = {".gz": 2.7, ".bz2": 4.0, ".xz": 4.5, ".zst": 3.0, ".parquet": 2.0}
_TEXT_IN_A_DUMP = 0.45  # the rest is markup
_UNSURE = 2.0  # factor by which the estimate may be wrong

_SKEW_SECONDS = 60.0
_REFUSED_SECONDS = 900.0  # AWS takes more for an attack


def sources(config: BuildConfig) -> Iterator[Line]:
    """Check the files of the source; raise ConfigError if there are none."""
    files = find_files(config.source.paths)
    finding = f"{len(files):,} files, {amount(sum(file.size for file in files))}"
    unreadable = [problem for file in files if "://" not in file.path and (problem := _why_not_opened(file.path))]
    if unreadable:
        yield Line("red", "source.paths", f"cannot be read: {_some(unreadable)}", "change their owner or mode")
    elif not any(file.size for file in files):
        yield Line("red", "source.paths", f"{finding}: there is nothing in them", "give other files")
    else:
        yield Line("green", "source.paths", finding)


def _why_not_opened(path: str) -> str | None:
    """Return why a file cannot be opened, by opening it: its mode need not say what this process may do."""
    try:
        with open(path, "rb"):
            return None
    except OSError as error:
        return f"{path} ({error.strerror})"


def _some(names: Sequence[str], most: int = 3) -> str:
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def first_bytes(config: BuildConfig) -> Iterator[Line]:
    """Read a few bytes, since an object store may list a file that it refuses; raise ConfigError if no units follow."""
    file = next((file for file in find_files(config.source.paths) if file.size), None)
    if file is None:
        return
    try:
        with open_binary(file.path) as stream:
            stream.read(1 << 16)
    except OSError as error:
        yield Line("red", "source.paths", f"cannot be read: {file.path} ({error})", "change its owner or mode")
        return
    source_kind(config.source.kind).slices(config.source.paths, config.source.unit_bytes)


def store_place(config: BuildConfig) -> Iterator[Line]:
    """Try out the place of the store: write, list, read, delete, and create a file only once."""
    url = open_files(config.store).url
    folder = url if "://" in url else _nearest_folder(url)
    if folder is None:
        yield Line("red", "store", f"{url}: a file is in the way", "remove it, or give another `store`")
        return
    ahead = try_out(open_files(folder))
    yield Line("green", "store", f"{url}: writable, and creates each file once")
    skew = f"the clock of {folder} is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    remedy = "set the clocks of both by NTP: object stores refuse what seems to be 15 minutes off"
    if abs(ahead) > _REFUSED_SECONDS:
        yield Line("red", "clock", skew, remedy)
    elif abs(ahead) > _SKEW_SECONDS:
        yield Line("yellow", "clock", skew, remedy)
    else:
        yield Line("green", "clock", f"that of {folder} agrees with this machine's")


def _nearest_folder(path: str) -> str | None:
    """Return the folder, or the nearest existing one above it; None if something else is in the way."""
    while not os.path.isdir(path):
        if os.path.lexists(path):
            return None
        path = os.path.dirname(path)
    return path


def store_content(config: BuildConfig, content: Mapping[str, Any]) -> Iterator[Line]:
    """Check that the store has no corpus, or the one that these settings make; raise StoreError if it has another."""
    store = Store.at(config.store)
    if not store.files.exists("corpus.json"):
        yield Line("green", "corpus", "none yet: a build begins one")
        return
    store.check_corpus(content)
    begun = [pass_store.name for pass_store in store.passes()]
    yield Line("green", "corpus", f"begun with the same settings and models: {', '.join(begun)}; a build goes on")


def disk(config: BuildConfig) -> Iterator[Line]:
    """Compare the free space for a local store with what the corpus will roughly take."""
    url = open_files(config.store).url
    folder = None if "://" in url else _nearest_folder(url)
    if folder is None:
        return
    free = shutil.disk_usage(folder).free
    needed = estimated_bytes(config, find_files(config.source.paths))
    finding = f"{amount(free)} free in {folder}, the corpus takes about {amount(needed)}"
    remedy = "make room, give another `store`, or take less of the source"
    begun = os.path.exists(os.path.join(url, "corpus.json"))  # then part of it is already there
    if free * _UNSURE < needed and not begun:
        yield Line("red", "room for the store", finding, remedy)
    elif free < needed * _UNSURE:
        yield Line("yellow", "room for the store", finding, remedy)
    else:
        yield Line("green", "room for the store", finding)


def estimated_bytes(config: BuildConfig, files: Sequence[SourceFile]) -> float:
    """Estimate the size of the corpus of these files; right within a factor of two on Wikipedia."""
    text = sum(file.size * _EXPANSION.get(os.path.splitext(file.path)[1], 1.0) for file in files)
    if config.source.kind == "mediawiki":
        text *= _TEXT_IN_A_DUMP
    triples = recipe_of(config).product.pass_name in passes_of(config)
    targets = min(config.sample.size, text / _BYTES_A_SENTENCE)
    return _TEXT_SHARE * text + targets * (_BYTES_A_TARGET + triples * _BYTES_A_TRIPLE)
