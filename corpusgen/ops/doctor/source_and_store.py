"""Where text comes from and where the corpus goes: readable, writable, large enough, its clock right."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import passes_of
from corpusgen.io.files import open_files
from corpusgen.ops.doctor.findings import Line, amount
from corpusgen.sources.locate import SourceFile, find_files, open_binary
from corpusgen.sources.readers import slices_of
from corpusgen.store import Store
from corpusgen.store.check import try_out

# What a store takes, measured on 41 MB of extracted Wikipedia and 6 MB of a dump: of each byte of text 0.5 as
# sentences and 0.25 as candidates; a sentence for 330 bytes, and of each that is sampled some bytes more.
_TEXT_SHARE = 0.8
_BYTES_A_SENTENCE = 330
_BYTES_A_TARGET = 180
_BYTES_A_TRIPLE = 350
_EXPANSION = {".gz": 2.7, ".bz2": 4.0, ".xz": 4.5, ".zst": 3.0, ".parquet": 2.0}
_TEXT_IN_A_DUMP = 0.45  # the rest is mark-up
_UNSURE = 2.0  # by this factor the estimate may err

_SKEW_SECONDS = 60.0
_REFUSED_SECONDS = 900.0  # what AWS takes for an attack


def sources(config: BuildConfig) -> Iterator[Line]:
    """The files that are to be read; ConfigError if there are none."""
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
    """By trying: what the mode says need not be what this process may do."""
    try:
        with open(path, "rb"):
            return None
    except OSError as error:
        return f"{path} ({error.strerror})"


def _some(names: Sequence[str], most: int = 3) -> str:
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def first_bytes(config: BuildConfig) -> Iterator[Line]:
    """Read a little, since being listed is not being readable on an object store; ConfigError if it tells no units."""
    file = next((file for file in find_files(config.source.paths) if file.size), None)
    if file is None:
        return
    try:
        with open_binary(file.path) as stream:
            stream.read(1 << 16)
    except OSError as error:
        yield Line("red", "source.paths", f"cannot be read: {file.path} ({error})", "change its owner or mode")
        return
    slices_of(config.source.kind, config.source.paths, config.source.unit_bytes)


def store_place(config: BuildConfig) -> Iterator[Line]:
    """Try the place out: write, list, read, delete, and whether it lets a file be created only once."""
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
    """The folder, or the one above it that is there; None if something else is in the way."""
    while not os.path.isdir(path):
        if os.path.lexists(path):
            return None
        path = os.path.dirname(path)
    return path


def store_content(config: BuildConfig, content: Mapping[str, Any]) -> Iterator[Line]:
    """Whether the corpus that is there, if any, is the one that these settings make; StoreError if not."""
    store = Store.at(config.store)
    if not store.files.exists("corpus.json"):
        yield Line("green", "corpus", "none yet: a build begins one")
        return
    store.check_corpus(content)
    begun = [pass_store.name for pass_store in store.passes()]
    yield Line("green", "corpus", f"begun with the same settings and models: {', '.join(begun)}; a build goes on")


def disk(config: BuildConfig) -> Iterator[Line]:
    """The room for a local store against what it will take, roughly."""
    url = open_files(config.store).url
    folder = None if "://" in url else _nearest_folder(url)
    if folder is None:
        return
    free = shutil.disk_usage(folder).free
    needed = estimated_bytes(config, find_files(config.source.paths))
    finding = f"{amount(free)} free in {folder}, the corpus takes about {amount(needed)}"
    remedy = "make room, give another `store`, or take less of the source"
    begun = os.path.exists(os.path.join(url, "corpus.json"))  # then some of it is there already
    if free * _UNSURE < needed and not begun:
        yield Line("red", "room for the store", finding, remedy)
    elif free < needed * _UNSURE:
        yield Line("yellow", "room for the store", finding, remedy)
    else:
        yield Line("green", "room for the store", finding)


def estimated_bytes(config: BuildConfig, files: Sequence[SourceFile]) -> float:
    """About how large the corpus of these files will be, right within a factor of two on Wikipedia."""
    text = sum(file.size * _EXPANSION.get(os.path.splitext(file.path)[1], 1.0) for file in files)
    if config.source.kind == "mediawiki":
        text *= _TEXT_IN_A_DUMP
    triples = "generate" in passes_of(config)
    targets = min(config.sample.size, text / _BYTES_A_SENTENCE)
    return _TEXT_SHARE * text + targets * (_BYTES_A_TARGET + triples * _BYTES_A_TRIPLE)
