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
from corpusgen.ops.doctor.findings import Finding, amount
from corpusgen.sources.kinds import source_kind
from corpusgen.sources.locate import SourceFile, find_files, open_binary
from corpusgen.store import Store
from corpusgen.store.check import try_out
from corpusgen.store.products import DISCOURSE, PARAGRAPHS, WORDS

# What a store takes, measured on 41 MB of extracted Wikipedia and 6 MB of a dump: for each byte of text, about 0.5 as
# sentences, 0.25 as candidates, 0.3 as repeats and 0.9 as whole paragraphs; one sentence per 330 bytes, and some more
# bytes for each that is sampled, and for each pair.
_TEXT_SHARE = 0.55
_CANDIDATES_SHARE = 0.25
_REPEATS_SHARE = 0.3
_PARAGRAPHS_SHARE = 0.9
_BYTES_A_SENTENCE = 330
_BYTES_A_TARGET = 180
_BYTES_A_TRIPLE = 350
_BYTES_A_PAIR = 360
_EXPANSION = {".gz": 2.7, ".bz2": 4.0, ".xz": 4.5, ".zst": 3.0, ".parquet": 2.0}
_TEXT_IN_A_DUMP = 0.45  # the rest is markup
_UNSURE = 2.0  # factor by which the estimate may be wrong

_SKEW_SECONDS = 60.0
_REFUSED_SECONDS = 900.0  # AWS takes more for an attack


def sources(config: BuildConfig) -> Iterator[Finding]:
    """Check the files of the source; raise ConfigError if there are none."""
    files = find_files(config.source.paths)
    finding = f"{len(files):,} files, {amount(sum(file.size for file in files))}"
    unreadable = [problem for file in files if "://" not in file.path and (problem := _why_not_opened(file.path))]
    if unreadable:
        yield Finding("red", "source.paths", f"cannot read {_some(unreadable)}", "change their owner or permissions")
    elif not any(file.size for file in files):
        yield Finding("red", "source.paths", f"{finding}: all empty", "give other files")
    else:
        yield Finding("green", "source.paths", finding)


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


def first_bytes(config: BuildConfig) -> Iterator[Finding]:
    """Read a few bytes, since an object store may list a file that it refuses; raise ConfigError if no units follow."""
    file = next((file for file in find_files(config.source.paths) if file.size), None)
    if file is None:
        return
    try:
        with open_binary(file.path) as stream:
            stream.read(1 << 16)
    except OSError as error:
        yield Finding("red", "source.paths", f"cannot read {file.path} ({error})", "change its owner or permissions")
        return
    source_kind(config.source.kind).slices(config.source.paths, config.source.unit_bytes)


def store_location(config: BuildConfig) -> Iterator[Finding]:
    """Try out where the store shall be: write, list, read, delete, and create a file only once."""
    url = open_files(config.store).url
    folder = url if "://" in url else _nearest_folder(url)
    if folder is None:
        yield Finding("red", "store", f"{url}: a file is in the way", "remove it, or give another `store`")
        return
    ahead = try_out(open_files(folder))
    yield Finding("green", "store", f"{url}: writable, and creates each file once")
    skew = f"the clock of {folder} is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    remedy = "synchronise both clocks with NTP: object stores refuse requests that are 15 minutes off"
    if abs(ahead) > _REFUSED_SECONDS:
        yield Finding("red", "clock", skew, remedy)
    elif abs(ahead) > _SKEW_SECONDS:
        yield Finding("yellow", "clock", skew, remedy)
    else:
        yield Finding("green", "clock", f"the clock of {folder} agrees with this machine's")


def _nearest_folder(path: str) -> str | None:
    """Return the folder, or the nearest existing one above it; None if something else is in the way."""
    while not os.path.isdir(path):
        if os.path.lexists(path):
            return None
        path = os.path.dirname(path)
    return path


def store_content(config: BuildConfig, content: Mapping[str, Any]) -> Iterator[Finding]:
    """Check that the store has no corpus, or the one that these settings make; raise StoreError if it has another."""
    store = Store.at(config.store)
    if not store.files.exists("corpus.json"):
        yield Finding("green", "corpus", "none yet; a build creates one")
        return
    store.check_corpus(content)
    begun = [pass_store.name for pass_store in store.passes()]
    yield Finding("green", "corpus", f"same settings and models, with {', '.join(begun)} begun; a build resumes it")


def disk(config: BuildConfig) -> Iterator[Finding]:
    """Compare the free space for a local store with what the corpus will roughly take."""
    url = open_files(config.store).url
    folder = None if "://" in url else _nearest_folder(url)
    if folder is None:
        return
    free = shutil.disk_usage(folder).free
    needed = estimated_bytes(config, find_files(config.source.paths))
    finding = f"{amount(free)} free in {folder}; the corpus needs about {amount(needed)}"
    remedy = "free some space, choose another `store`, or use less of the source"
    begun = os.path.exists(os.path.join(url, "corpus.json"))  # then part of it is already there
    if free * _UNSURE < needed and not begun:
        yield Finding("red", "room for the store", finding, remedy)
    elif free < needed * _UNSURE:
        yield Finding("yellow", "room for the store", finding, remedy)
    else:
        yield Finding("green", "room for the store", finding)


def estimated_bytes(config: BuildConfig, files: Sequence[SourceFile]) -> float:
    """Estimate the size of the corpus of these files; right within a factor of two on Wikipedia."""
    text = sum(file.size * _EXPANSION.get(os.path.splitext(file.path)[1], 1.0) for file in files)
    if config.source.kind == "mediawiki":
        text *= _TEXT_IN_A_DUMP
    passes, products = passes_of(config), recipe_of(config).products  # another recipe may have passes of these names
    sentences = text / _BYTES_A_SENTENCE
    size = 0.0 if products == (PARAGRAPHS,) else _TEXT_SHARE * text
    if PARAGRAPHS in products:
        size += _PARAGRAPHS_SHARE * text
    if WORDS in products:
        triples = WORDS.pass_name in passes
        targets = min(config.sample.size, sentences)
        size += _CANDIDATES_SHARE * text + targets * (_BYTES_A_TARGET + triples * _BYTES_A_TRIPLE)
    if DISCOURSE in products:
        size += _REPEATS_SHARE * text + min(config.discourse.size, sentences) * _BYTES_A_PAIR
    return size
