"""The projection from what a sample took to what the whole build will take.

Three things make an estimate uncertain, and its draws reflect all of them: only some pieces of the source were read
(they are resampled), only some targets were tried (their fates follow a Dirichlet distribution), and no machine does
the same work twice in the same time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.recipes.words import GROUP_ROWS
from corpusgen.engine import Resources
from corpusgen.ops.estimate.extrapolate import WholeSource, distinct_words, most_candidates
from corpusgen.ops.estimate.measure import Measured, MeasuredPass
from corpusgen.ops.estimate.uncertain import DRAWS, Uncertain
from corpusgen.store.parts import encoded
from corpusgen.store.products import DISCOURSE, PARAGRAPHS, TOKEN_VOCABULARY, WORDS
from corpusgen.tables import PARAPHRASES_TABLE
from corpusgen.targets.names import without_names

SPEED = 1.5
"""How many times faster or slower than measured a stage may be. In four runs of the same harvest on a shared machine
with two cores, a stage took up to 1.4 times as long in one run as in another, not counting waits for a CPU.
"""
_MOST = 5.0  # limit of the factor, for a stage that took next to nothing
_SHORT = 0.1  # seconds: a stage that took only this long gets 1 added to its factor
_FEW = 0.7  # texts differ in length: added to the factor for one row; for n rows, divided by the root of n
_BYTES = 1.1  # parts with other rows, or of other sizes, compress differently
_OTHER_WORDS = 1.15  # factor by which targets may differ if the sample had too few words
_GUESS = 1.5  # factor for values from a rule of thumb


@dataclass(frozen=True)
class ProjectedStage:
    """A stage of the whole build; `measured_seconds` is what the sample took."""

    pass_name: str
    name: str
    expands: bool
    resources: Resources
    loading: float
    measured_seconds: float
    rows_in: Uncertain
    rows_out: Uncertain
    seconds: Uncertain


@dataclass(frozen=True)
class ProjectedTable:
    """A table of the whole build."""

    pass_name: str
    name: str
    rows: Uncertain
    bytes: Uncertain


@dataclass(frozen=True)
class Projection:
    """The whole build; `other_bytes` is the size of plans and commits."""

    stages: Sequence[ProjectedStage]
    tables: Sequence[ProjectedTable]
    other_bytes: float
    words_are_few: bool


def project(config: BuildConfig, measured: Measured) -> Projection:
    """Compute the whole from the sample."""
    return _Projector(config, measured).run()


class _Projector:
    def __init__(self, config: BuildConfig, measured: Measured) -> None:
        self._config, self._measured, self._source = config, measured, measured.source
        self._chance = np.random.default_rng(0)
        self._stages: list[ProjectedStage] = []
        self._tables: list[ProjectedTable] = []
        self._other_bytes = 0.0

    def run(self) -> Projection:
        rows, counts = self._read()
        if PARAGRAPHS.pass_name in self._measured.passes:
            self._tokens(rows, counts)
            return Projection(self._stages, self._tables, self._other_bytes, words_are_few=False)
        return self._of_sentences(rows, counts)

    def _of_sentences(self, sentences: Uncertain, counts: Uncertain) -> Projection:
        """Project the passes over sentences, to triples and pairs."""
        passes = self._measured.passes
        self._vocabulary(sentences, counts)
        few = self._words_are_few()
        targets = self._sampling(sentences) if "selection" in passes else None
        if DISCOURSE.pass_name in passes:
            self._discourse(sentences, few)
        if targets is not None and WORDS.pass_name in passes:
            self._generate(targets, few)
        return Projection(self._stages, self._tables, self._other_bytes, few)

    def _read(self) -> tuple[Uncertain, Uncertain]:
        """Project the first pass; return the number of sentences or paragraphs, and of rows of counts."""
        done, units = next(iter(self._measured.passes.values())), self._source.units
        whole = WholeSource(self._source, self._chance)
        rows = Uncertain.exactly(units)
        for index in range(len(done.stages)):
            rows_out = whole.sum_of([unit[index].rows_out for unit in done.units])
            seconds = whole.seconds_of([unit[index].seconds for unit in done.units])
            self._stage(done, index, rows, rows_out, seconds)
            rows = rows_out
        counts = self._guess(self._measured.counts / self._measured.parts * units)
        self._pass(done, units, {next(iter(done.rows)): rows, "counts": counts})
        return rows, counts

    def _tokens(self, paragraphs: Uncertain, counts: Uncertain) -> None:
        """Project the vocabulary of paragraphs.

        By Zipf's law, words that occur n times or more grow as the distinct words in an n-th of the text do.
        """
        (name, table), settings = TOKEN_VOCABULARY, self._config.paragraphs
        read, done = self._measured.passes[PARAGRAPHS.pass_name], self._measured.passes[name]
        sizes = (paragraphs.value, read.rows[PARAGRAPHS.table].num_rows)
        whole, sample = (distinct_words(read, size / settings.min_count, PARAGRAPHS.table) for size in sizes)
        words = Uncertain.exactly(max(1, done.rows[table].num_rows) * max(1.0, whole / sample))
        if self._source.share < 1:
            words = words.spread(_GUESS, self._chance)
        words = words.at_most(settings.vocabulary)
        self._merging(done, Uncertain.exactly(self._source.units), words, counts, self._measured.counts)
        self._pass(done, 1, {table: words})

    def _vocabulary(self, sentences: Uncertain, counts: Uncertain) -> None:
        done, settings = self._measured.passes["vocabulary"], self._config.sample
        words = distinct_words(self._measured.passes["harvest"], sentences.value) * (1 - settings.drop_top_share)
        vocabulary = self._guess(words).at_most(settings.vocabulary)
        self._merging(done, Uncertain.exactly(self._source.units), vocabulary, counts, self._measured.counts)
        self._pass(done, 1, {"vocabulary": vocabulary})

    def _sampling(self, sentences: Uncertain) -> Uncertain:
        """Project the passes candidates, selection and sample; return the number of targets."""
        passes, settings, units = self._measured.passes, self._config.sample, self._source.units
        parts, groups = Uncertain.exactly(units), self._groups(sentences)
        targets = Uncertain.exactly(settings.size)
        selected, read = passes["selection"].rows["selection"].num_rows, self._sentences_read
        if selected < self._measured.sample_size:
            targets = (sentences * (selected / read)).at_most(settings.size)
        candidates = self._candidates(targets.value)
        sampled = passes["candidates"].rows["candidates"].num_rows
        self._merging(passes["candidates"], parts, candidates, sentences, read)
        self._pass(passes["candidates"], groups, {"candidates": candidates})
        self._merging(passes["selection"], Uncertain.exactly(groups), targets, candidates, sampled)
        self._pass(passes["selection"], 1, {"selection": targets})
        self._merging(passes["sample"], parts, targets, sentences, read)
        self._pass(passes["sample"], groups, {"targets": targets})
        return targets

    @property
    def _sentences_read(self) -> int:
        return int(self._measured.passes["harvest"].rows["sentences"].num_rows)

    def _groups(self, sentences: Uncertain) -> int:
        """Return the number of units of a pass that reads all sentences again."""
        return max(1, round(sentences.value / (GROUP_ROWS + sentences.value / self._source.units / 2)))

    def _discourse(self, sentences: Uncertain, few: bool) -> None:
        """Project the passes repeats, pairing, fetch and pairs.

        What documents repeat grows with the sentences. Words that stand alone are kept for each part, whatever it has.
        """
        passes, settings, units = self._measured.passes, self._config.discourse, self._source.units
        parts, groups, read = Uncertain.exactly(units), self._groups(sentences), self._sentences_read
        repeats = passes["repeats"].rows["repeats"]
        found = repeats.num_rows - repeats["second"].null_count
        candidates = (sentences * (found / read)).spread(_GUESS if few else _OTHER_WORDS, self._chance)
        alone = self._guess(repeats["second"].null_count / self._measured.parts * units)
        pairs = candidates.at_most(settings.size)
        self._merging(passes["repeats"], parts, candidates + alone, sentences, read)
        self._pass(passes["repeats"], groups, {"repeats": candidates + alone})
        self._merging(passes["pairing"], Uncertain.exactly(groups), pairs, candidates + alone, repeats.num_rows)
        self._pass(passes["pairing"], 1, {"choice": pairs})

        chosen = max(1, passes["pairing"].rows["choice"].num_rows)
        of_a_pair = passes["fetch"].rows["sentences"].num_rows / chosen
        fetched = (pairs * of_a_pair).spread(_GUESS if few else _OTHER_WORDS, self._chance).at_most(sentences.value)
        self._merging(passes["fetch"], parts, fetched, sentences, read)
        self._pass(passes["fetch"], groups, {"sentences": fetched})

        done = passes[DISCOURSE.pass_name]
        number = max(1, math.ceil(pairs.value / settings.unit_pairs))
        more_units = max(1.0, number / len(done.units))  # each of them looks through all that was fetched
        rows_in = Uncertain.exactly(number)
        for index in range(len(done.stages)):
            seconds = pairs * (done.count(index).seconds / chosen * more_units)
            self._stage(done, index, rows_in, pairs, seconds)
            rows_in = pairs
        self._pass(done, number, {DISCOURSE.table: pairs})

    def _merging(
        self, done: MeasuredPass, parts: Uncertain, rows_out: Uncertain, read: Uncertain, sampled: int
    ) -> None:
        """Project a stage that reads another table: its seconds grow with the rows read; the sample had `sampled`."""
        self._stage(done, 0, parts, rows_out, read * (done.count(0).seconds / max(1, sampled)))

    def _candidates(self, targets: float) -> Uncertain:
        """Return as many candidates as the words' limits allow, in the proportion that the sample had."""
        passes, source = self._measured.passes, self._source
        sample, found = self._config.sample, passes["candidates"].rows["candidates"].num_rows
        words = without_names(passes["vocabulary"].rows["vocabulary"], sample.max_capital_share)
        selected, at_once = passes["selection"].rows["selection"].num_rows, sample.sentences_per_word
        allowed = most_candidates(words, 1.0, selected, self._measured.parts, at_once)
        most = most_candidates(words, 1 / source.share, targets, source.units, at_once)
        return self._guess(found * most / max(1.0, allowed))

    def _words_are_few(self) -> bool:
        """Return whether the sample has too few words to tell which ones a build would choose its targets from."""
        words = self._measured.passes["vocabulary"].rows["vocabulary"]
        seen_again = pc.sum(pc.greater(words["count"], 1)).as_py() or 0
        return self._source.share < 1 and bool(2 * seen_again < self._config.sample.vocabulary)

    def _generate(self, targets: Uncertain, few: bool) -> None:
        done = self._measured.passes[WORDS.pass_name]
        units = max(1, math.ceil(targets.value / self._config.generate.unit_targets))
        counts = [done.count(index) for index in range(len(done.stages))]
        # At which stage each target ended. That none ended at a stage does not mean that none ever will.
        ended = np.array([*(count.rows_in - count.rows_out for count in counts[1:]), counts[-1].rows_out])
        fates = self._chance.dirichlet(ended + 0.5, DRAWS)
        drawn = self._chance.multinomial(np.rint(targets.draws).astype(np.int64), fates)
        rows_in, rows_out = Uncertain.exactly(units), targets
        for index, count in enumerate(counts):
            if index:
                left = targets.draws - drawn[:, :index].sum(axis=1)
                rows_out = Uncertain(targets.value * count.rows_out / max(1, counts[0].rows_out), left)
            if few and index == len(counts) - 1:
                other = rows_out.spread(_OTHER_WORDS, self._chance).draws
                rows_out = Uncertain(rows_out.value, np.minimum(other, rows_in.draws))
            paced, rows = done.pace(index), rows_in if index else targets
            seconds = rows * (paced.seconds / max(1, paced.rows_in if index else paced.rows_out))
            self._stage(done, index, rows_in, rows_out, seconds)
            rows_in = rows_out
        tables = {WORDS.table: rows_out, WORDS.rejects: targets - rows_out}
        if PARAPHRASES_TABLE in done.rows:
            made, enriched = done.rows[WORDS.table].num_rows, done.rows[PARAPHRASES_TABLE].num_rows
            share = Uncertain(enriched / max(1, made), self._chance.beta(enriched + 0.5, made - enriched + 0.5, DRAWS))
            tables[PARAPHRASES_TABLE] = rows_out * share
            alike = done.rows[WORDS.table].select(["id", "positive"])  # the sample may have none of the others
            done = replace(done, rows={**done.rows, PARAPHRASES_TABLE: alike})
        self._pass(done, units, tables)

    def _guess(self, value: float) -> Uncertain:
        """Return a number from a rule of thumb, with its uncertainty."""
        return Uncertain.exactly(value).spread(_GUESS, self._chance)

    def _stage(
        self, done: MeasuredPass, index: int, rows_in: Uncertain, rows_out: Uncertain, seconds: Uncertain
    ) -> None:
        """Add a stage; its speed is most certain where it took long and had many rows."""
        stage, paced = done.stages[index], done.pace(index)
        rows = max(paced.rows_in, paced.rows_out, 1)
        factor = min(_MOST, SPEED + _SHORT / max(paced.seconds, 1e-9) + _FEW / math.sqrt(rows))
        measured = (done.loading[stage.name], done.count(index).seconds)
        seconds = seconds.spread(factor, self._chance)
        self._stages.append(
            ProjectedStage(done.name, stage.name, stage.expands, stage.resources, *measured, rows_in, rows_out, seconds)
        )

    def _pass(self, done: MeasuredPass, units: int, tables: Mapping[str, Uncertain]) -> None:
        """Add the tables of a pass, and what its units take besides them."""
        self._other_bytes += done.other_bytes * units
        for name, rows in tables.items():
            size = rows * 0.0
            if done.rows[name].num_rows:
                of_part = max(1.0, rows.value / units)
                size = (rows * (_part_bytes(done.rows[name], of_part) / of_part)).spread(_BYTES, self._chance)
            self._tables.append(ProjectedTable(done.name, name, rows, size))


def _part_bytes(table: pa.Table, rows: float) -> float:
    """Return the size of a part with `rows` such rows; one row shows what a part takes however few it has."""
    known = max(1, min(table.num_rows, round(rows)))
    one, some = (encoded(table.slice(0, number)).size for number in (1, known))
    return float(one + (some - one) / (known - 1) * (rows - 1)) if known > 1 else float(one * rows)
