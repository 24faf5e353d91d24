"""Whatever the text: spans are exact, nothing raises, no row is lost, and time and memory stay within bounds.

Texts that were made to cost much run in a process of their own, which may have so much memory and no more. The bounds
are far above what is needed: one that is met tells of something that grows faster than the text.
"""

import itertools
import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpusgen.config.build import FilterSettings
from corpusgen.engine import time_limit
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.engine.time_limit import TimeLimit
from corpusgen.text.filters import FilterSentences
from corpusgen.text.language import IdentifyLanguage
from corpusgen.text.segment import RuleSegmenter, SegmentSentences
from corpusgen.text.wikitext import is_disambiguation, is_redirect, paragraphs
from corpusgen.text.words import tokenize
from tests.corpusgen.text.adversarial import GENERATORS, parts, table
from tests.testing import PROJECT

SIZE = 100_000  # characters, of which exactness is checked on fewer
SECONDS = 3.0  # for one part and text; the slowest takes 0.3, and by the square of the length it would be 5 and more
MEMORY = 1 << 30  # beyond what is there when everything is loaded

SEGMENTER, IDENTIFY, SEGMENT = RuleSegmenter(), IdentifyLanguage(code="en", threshold=0.0), SegmentSentences()
STAGES = (
    IDENTIFY,
    SEGMENT,
    FilterSentences(filters=FilterSettings(min_words=None, max_words=None, capital_first=False)),
)
for stage in STAGES:
    stage.setup()


def check(text):
    """Everything in corpusgen.text, on one text."""
    with TimeLimit(SECONDS) as limit:
        limit.run(_check_sentences, text)
        limit.run(_check_stages, text)
        limit.run(_check_wikitext, text)


def _check_sentences(text):
    taken, spans, tokens = SEGMENTER.segment([text])
    assert set(taken) <= {0}
    starts, stops = np.array(spans or [(0, 0)]).T
    _check_spans(text, starts, stops)
    origins = np.repeat(starts[: len(spans)], tokens.counts)
    assert (tokens.starts >= 0).all()
    assert (tokens.ends + origins <= np.repeat(stops[: len(spans)], tokens.counts)).all()
    _check_spans(text, tokens.starts + origins, tokens.ends + origins)
    _check_spans(text, *tokenize([text])[1:])


def _check_spans(text, starts, ends):
    """They are in order, do not overlap, and leave nothing out but white space."""
    assert (starts < ends).all() or not text.strip()
    assert (ends[:-1] <= starts[1:]).all()
    surfaces = [text[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    assert all(surface == surface.strip() for surface in surfaces)
    assert "".join("".join(surfaces).split()) == "".join(text.split())


def _check_stages(text):
    """Of each stage, rows in are rows out; the text has company, which does not suffer."""
    batch = run_stage(IDENTIFY, Batch(table([text])))
    assert batch.num_rows + sum(batch.stages["identify"].rejected.values()) == 1
    batch = Batch(table(["A river. ", text, " "]))
    for stage in STAGES[1:]:
        batch = run_stage(stage, batch)
    segmented, filtered = batch.stages["segment"], batch.stages["filter"]
    assert segmented.used + sum(segmented.rejected.values()) == segmented.rows_in == 3
    assert filtered.rows_out + sum(filtered.rejected.values()) == filtered.rows_in == segmented.rows_out
    assert batch.quarantined == []
    assert batch.rows["text"][0].as_py() == "A river."


def _check_wikitext(text):
    for found in paragraphs(text):
        assert found.strip()
        assert "\n" not in found
        assert not any("\ufdd0" <= character <= "\ufdef" for character in found)
    is_redirect(text)
    is_disambiguation(text)


def encodable(text):
    """As it comes from a file: without halves of pairs."""
    return text.encode("utf-8", "replace").decode()


atoms = st.one_of(
    st.sampled_from(sorted({make(1) for make in GENERATORS.values()})), st.text(max_size=4).map(encodable)
)
repeated = st.tuples(atoms, st.integers(1, 300)).map(lambda pair: pair[0] * pair[1])


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.one_of(atoms, repeated), max_size=8).map("".join))
def test_any_combination_of_hostile_pieces_is_taken(text):
    check(text)


def test_texts_made_to_cost_much_do_not():
    command = [sys.executable, "-m", "tests.corpusgen.text.test_fuzz"]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]


@pytest.mark.parametrize("text", ["It is {0:1<300000}. It is no number.", "{{{{{0:a<300000}}}}} is a name."])
def test_what_was_seen_once_takes_no_memory_for_ever(text):
    def look(numbers):
        for number in numbers:
            check(text.format(number))

    look([0])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        look(range(1, 21))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2_000_000  # what was seen is six million characters


def main():
    """Check each text that was made to cost much, in bounded memory."""
    check("Everything is loaded now. It takes memory.")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (300, 300))
    pa.set_cpu_count(1)
    time_limit.SECONDS = SECONDS  # which the segmenter takes for itself
    failed = 0
    for (what, make), (name, part) in itertools.product(GENERATORS.items(), {"all": check, **parts()}.items()):
        try:
            with TimeLimit(SECONDS) as limit:
                limit.run(part, make(SIZE // 20 if part is check else SIZE))
        except Exception as error:
            failed += 1
            sys.stderr.write(f"{name} of {what}: {type(error).__name__}: {str(error)[:200]}\n")
    sys.exit(min(failed, 100))


if __name__ == "__main__":
    main()
