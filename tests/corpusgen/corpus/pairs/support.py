"""Documents small enough to reason about: few words, so that sentences and documents share many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from corpusgen.config.build import DiscourseSettings
from corpusgen.corpus.pairs.repeats import Repeats, WordFilter, choose, find_repeats
from corpusgen.targets.vocabulary import count_words, make_vocabulary
from tests.corpusgen.targets.support import sentence_table

PLENTY = 1000  # pairs of a word: more than any corpus here has

_WORDS = ["bank", "river", "Bank", "money", "stone", "été", "𝒳𝒳𝒳"]
_OTHERS = ["the", "of", "up", ",", "1984", "in", "ox"]

sentences = st.lists(st.sampled_from(_WORDS * 2 + _OTHERS), min_size=1, max_size=7).map(" ".join)
documents = st.lists(sentences, min_size=1, max_size=6)


@dataclass(frozen=True)
class Corpus:
    """Documents, each a list of sentences whose tokens stand between spaces."""

    documents: Sequence[Sequence[str]]
    language: str = "en"
    seed: int = 1

    def table(self, numbers: Sequence[int] | None = None) -> pa.Table:
        """The sentences of some documents, as the harvest leaves them."""
        numbers = range(len(self.documents)) if numbers is None else numbers
        places = [(n, place, text) for n in numbers for place, text in enumerate(self.documents[n])]
        table = sentence_table([text for *_, text in places]).append_column(
            "id", pa.array([sentence_id(n, place) for n, place, _ in places], pa.string())
        )
        for name, values in (("source", ["file"] * len(places)), ("article", [f"a{n}" for n, *_ in places])):
            table = table.append_column(name, pa.array(values, pa.string()))
        for name, values in (("paragraph", [0] * len(places)), ("sentence", [place for _, place, _ in places])):
            table = table.append_column(name, pa.array(values, pa.int32()))
        return table

    @property
    def text_of(self) -> dict[str, str]:
        """All sentences by their ids."""
        return {sentence_id(n, i): text for n, texts in enumerate(self.documents) for i, text in enumerate(texts)}

    @property
    def vocabulary(self) -> pa.Table:
        return make_vocabulary(count_words(self.table()), drop_top_share=0)

    def repeats(
        self, settings: DiscourseSettings, numbers: Sequence[int] | None = None, per_word: int = PLENTY
    ) -> Repeats:
        """Those of a unit that consists of some documents."""
        words = WordFilter(self.vocabulary, settings, self.language)
        return find_repeats(self.table(numbers), words, settings, self.language, self.seed, per_word)

    def choice(self, settings: DiscourseSettings, per_word: int = PLENTY) -> list[dict[str, Any]]:
        """The pairs that are chosen if all documents are one unit."""
        found = self.repeats(settings, per_word=per_word).found
        return choose([found], settings.size, self.seed, per_word).to_pylist()


def sentence_id(document: int, place: int) -> str:
    return f"d{document}s{place}"


def document_number(sentence: str) -> int:
    """The document that a sentence with this id is in."""
    return int(sentence[1:].partition("s")[0])


corpora = st.lists(documents, max_size=9).map(Corpus)

settings = st.builds(
    DiscourseSettings,
    size=st.integers(1, 30),
    per_document=st.integers(1, 3),
    max_overlap=st.sampled_from([0.3, 0.5, 1.0]),
    boilerplate_documents=st.sampled_from([None, 2, 3]),
)
