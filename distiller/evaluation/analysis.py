"""Analysis of a model's vectors: the layers they come from, their similarities, and what probes read from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from rich.table import Table
from rich.text import Text

from corpusgen.errors import ConfigError
from distiller.evaluation.evaluate import ModelEncoder
from distiller.evaluation.files import SentencePair
from distiller.evaluation.metrics import Values, bootstrap, cosines
from distiller.evaluation.plots import in_order
from distiller.evaluation.probes import AMOUNT, KNOWN_CLASS, LINEAR_CLASS, Method, Probe, probe
from distiller.evaluation.results import Encoder, Score, Vectors
from distiller.evaluation.word_samples import (
    Occurrence,
    ProbeItems,
    WordPairs,
    frequent_words,
    parts_of_speech,
    sample_texts,
    sentence_lengths,
    word_pairs,
)
from distiller.inference.word_distiller import WordDistiller
from distiller.words.model import WordModel

_SENTENCE_PAIRS = 500  # paraphrases, and as many non-paraphrases
_TEXTS = 2000
_ATTENDING_WORDS = 512


@dataclass(frozen=True)
class Attention:
    """The attention that each layer receives: the mean over words, heads and attending layers."""

    words: int
    layers: list[int]
    """The numbers of the layers in the frozen model."""
    weights: dict[str, list[float]]
    """For each distiller, the attention to each layer; it sums to 1."""


@dataclass(frozen=True)
class PairCosines:
    """The mean similarity of the words of pairs, as in table 6 of the paper."""

    name: str
    """For example "common words in paraphrases"."""
    word_pairs: int
    sentence_pairs: int
    scores: dict[str, Score]
    """The mean cosine by kind of vectors; its interval is over pairs of sentences."""


@dataclass(frozen=True)
class Analysis:
    """The results of an analysis of a model's vectors. A part without data is empty."""

    attention: Attention | None
    """None for a baseline."""
    cosines: list[PairCosines]
    probes: list[Probe]
    skipped: dict[str, int]
    """The reasons why words have no vectors, with counts."""


def analyse(
    model: WordDistiller,
    sentence_pairs: Sequence[SentencePair],
    texts: Sequence[str],
    say: Callable[[str], None] = print,
    seed: int = 0,
) -> Analysis:
    """Analyse a model with a sample of English sentence pairs and a sample of English texts; either may be empty.

    The gold of a pair is 1 for a paraphrase and 0 otherwise. The texts are sentences for the probes. No two of them
    should say the same, or the probes would know what is held out.
    """
    groups = word_pairs(sentence_pairs, _SENTENCE_PAIRS, seed)
    sample = sample_texts(texts, _TEXTS, seed)
    items = {
        "sentence length": (AMOUNT, sentence_lengths(sample, seed)),
        "word identity": (KNOWN_CLASS, frequent_words(sample)),
        "part of speech": (LINEAR_CLASS, parts_of_speech(sample)),
    }
    asked = [occurrence for group in groups for pair in group.pairs for occurrence in pair]
    asked += [occurrence for _, of_probe in items.values() for occurrence in of_probe.occurrences]
    if not asked:
        raise ConfigError("nothing to analyse the model with; give pairs of English sentences, or English texts")
    # Sort by text, so that the words of a text share a run of the frozen model.
    occurrences = sorted(set(asked))
    say(f"analysing with {len(occurrences):,} words in {len({text for text, _ in occurrences}):,} texts")
    found = _Encoded(ModelEncoder(model), occurrences)
    compared = [_mean_cosines(group, found, say) for group in groups]
    probed = [_probe(name, *of_probe, found, say) for name, of_probe in items.items()]
    return Analysis(
        _attention(model, list(found.rows)),
        [each for each in compared if each is not None],
        [each for each in probed if each is not None],
        found.skipped,
    )


class _Encoded:
    """The vectors of occurrences, and the counts of occurrences without one."""

    def __init__(self, encoder: Encoder, occurrences: Sequence[Occurrence]) -> None:
        texts, spans = [text for text, _ in occurrences], [span for _, span in occurrences]
        self.vectors: Mapping[str, Vectors]
        self.vectors, reasons = encoder.words(texts, spans)
        numbered = enumerate(zip(occurrences, reasons, strict=True))
        self.rows = {occurrence: row for row, (occurrence, reason) in numbered if reason is None}
        self.skipped = dict(Counter(reason for reason in reasons if reason is not None))

    def of(self, occurrences: Sequence[Occurrence]) -> dict[str, Vectors]:
        """Return the vectors (n, d) of occurrences by kind; each occurrence must have one."""
        rows = [self.rows[occurrence] for occurrence in occurrences]
        return {kind: vectors[rows] for kind, vectors in self.vectors.items()}


def _attention(model: WordDistiller, occurrences: Sequence[Occurrence]) -> Attention | None:
    if not isinstance(model.model, WordModel) or not occurrences:
        return None  # other distillers have no attention
    some = occurrences[:: -(-len(occurrences) // _ATTENDING_WORDS)]
    states, _ = model.backbone.states([text for text, _ in some], [span for _, span in some])
    with torch.inference_mode():
        layers = model.model.layers(torch.from_numpy(states).to(model.backbone.device))
        received = {
            name: distiller.attention.weights(layers)[0].mean((0, 1, 2)).tolist()
            for name, distiller in (("meaning", model.model.meaning), ("context", model.model.context))
        }
    return Attention(len(some), list(model.backbone.layers), received)


def _mean_cosines(group: WordPairs, found: _Encoded, say: Callable[[str], None]) -> PairCosines | None:
    numbered = zip(group.pairs, group.sentences, strict=True)
    kept = [(pair, number) for pair, number in numbered if all(occurrence in found.rows for occurrence in pair)]
    if not kept:
        say(f"{group.name}: none")
        return None
    firsts, seconds = (found.of([pair[side] for pair, _ in kept]) for side in (0, 1))
    _, sentences = np.unique([number for _, number in kept], return_inverse=True)
    scores = {kind: _mean_over_sentences(cosines(firsts[kind], seconds[kind]), sentences) for kind in firsts}
    return PairCosines(group.name, len(kept), int(sentences.max()) + 1, scores)


def _mean_over_sentences(values: Values, sentences: npt.NDArray[np.int64]) -> Score:
    """Return the mean of all values. Values of one sentence pair depend on each other: they are resampled together."""

    def mean(sums: Values, counts: Values) -> Values:
        share: Values = sums.sum(-1) / counts.sum(-1)
        return share

    sums, counts = (np.bincount(sentences, weights).astype(np.float64) for weights in (values, None))
    return Score(float(mean(sums, counts)), *bootstrap(mean, sums, counts))


def _probe(name: str, method: Method, items: ProbeItems, found: _Encoded, say: Callable[[str], None]) -> Probe | None:
    kept = np.array([occurrence in found.rows for occurrence in items.occurrences], bool)
    vectors = found.of([occurrence for occurrence in items.occurrences if occurrence in found.rows])
    made = probe(name, method, vectors, items.targets[kept], items.held_out[kept])
    if made is None:
        say(f"probe of {name}: {kept.sum():,} words are too few or too similar; give more texts")
    return made


# ---------------------------------------------------------------------- report


def to_json(analysis: Analysis) -> dict[str, Any]:
    """Return the whole analysis as JSON values."""
    return asdict(analysis)


def tables(analysis: Analysis) -> Iterator[Table]:
    """Yield a terminal table for each part that is not empty. Figures are times 100."""
    if analysis.attention:
        of = analysis.attention
        rows = [
            [str(layer), *(f"{100 * weights[row]:.1f}" for weights in of.weights.values())]
            for row, layer in enumerate(of.layers)
        ]
        yield _table("attention to layers", ["layer", *of.weights], rows)
    if analysis.cosines:
        kinds = in_order(analysis.cosines[0].scores)
        rows = [[each.name, f"{each.word_pairs:,}", *_shown(each.scores, kinds)] for each in analysis.cosines]
        yield _table("mean cosine", ["", "pairs", *kinds], rows)
    if analysis.probes:
        kinds = in_order(analysis.probes[0].scores)
        rows = [
            [each.name, each.metric, f"{each.judged_by:,}", f"{100 * each.guess:z.1f}", *_shown(each.scores, kinds)]
            for each in analysis.probes
        ]
        yield _table("what is read from a word's vector", ["", "metric", "held out", "guess", *kinds], rows)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    drawn = Table(title=Text(title, "bold"), title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for column, head in enumerate(heads):
        drawn.add_column(head, justify="right" if column else "left", no_wrap=column > 0)
    for row in rows:
        drawn.add_row(*row)
    return drawn


def _shown(scores: Mapping[str, Score], kinds: Sequence[str]) -> list[str]:
    found = [scores[kind] for kind in kinds]
    return [f"{100 * each.value:z.1f} [{100 * each.low:z.1f}, {100 * each.high:z.1f}]" for each in found]
