"""The stages from targets to triples: read, (translate, align,) mask. They ask the models; `choose` chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusgen.config.build import MaskedSettings
from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples import choose
from corpusgen.corpus.triples.align import chosen_words
from corpusgen.corpus.triples.choose import Criteria, Pairs, Verdict, WordTable
from corpusgen.corpus.triples.contexts import words_around
from corpusgen.corpus.triples.damage import unaccounted_words, unknown_words
from corpusgen.corpus.triples.hypotheses import one_per_row, preferred
from corpusgen.corpus.triples.slots import Candidates, Slot, context_of, sentence_columns
from corpusgen.engine import Resources, Result, Stage, split_by_reason
from corpusgen.engine.parts import ReadRows
from corpusgen.engine.stage import GPU_BY_DEVICE, GpuOnly
from corpusgen.errors import StageError
from corpusgen.models.gpu_memory import GpuNeed, masked_need
from corpusgen.models.identity import NamedModel, confirmed
from corpusgen.models.lexical import edit_distance
from corpusgen.models.vectors import WordVectors, open_vectors
from corpusgen.store import CommittedTable, Store
from corpusgen.tables import ALIGNED, ENRICHED, HYPOTHESES, SUBSTITUTION, TARGETS, TRIPLES
from corpusgen.text.words import Tokens, tokenize

if TYPE_CHECKING:
    from corpusgen.models.masked_lm import MaskedPredictor

DAMAGED = "unknown word in the paraphrase"
ABSURD = "improbable word in the paraphrase"
_OF_ALIGNMENT = ["target", "target_start", "paraphrase", "aligned_start", "aligned_end"]
_LIGHT = Resources(cpus=0.05)
_WORDS_TO_JUDGE_BY = 200
_LEAST_KNOWN_SHARE = 0.5
_FREQUENT = 1000  # words of the vocabulary: even good vectors may not know its rarest words
_MOSTLY = 0.5  # share of capitalized occurrences from which a word counts as a name
_DECIMALS = 5  # of values that are stored and decided by: the same on every machine, however many threads add up


@dataclass
class ReadTargets(ReadRows):
    """Reads the targets of a unit."""

    adds: ClassVar[tuple[str, ...]] = tuple(TARGETS.names)


@dataclass
class _WithVectors(Stage):
    """A stage that compares words by their vectors."""

    vectors: str = ""
    vector_words: str | None = None
    max_words: int | None = None
    rules: RuleSettings = field(default_factory=RuleSettings)
    language: str = "en"
    resources: Resources = field(default=_LIGHT, kw_only=True, metadata={"content": False})

    def uses(self) -> Sequence[NamedModel]:
        """Return the file of vectors and, if it is a separate one, the file of their words."""
        words = [NamedModel("vectors.words", "files", self.vector_words)] if self.vector_words else []
        return [NamedModel("vectors", "files", self.vectors), *words]

    def setup(self) -> None:
        """Open the vectors."""
        path, _ = confirmed(self.vectors, None, self.models.get("vectors"))
        words = self.vector_words and confirmed(self.vector_words, None, self.models.get("vectors.words"))[0]
        self._vectors: WordVectors = open_vectors(path, words, self.max_words)
        self.criteria = Criteria(self.rules, self.language)

    def check_language(self, words: Sequence[str]) -> None:
        """Raise StageError if the vectors know few of these words of the corpus, all in lower case."""
        if len(words) < _WORDS_TO_JUDGE_BY:
            return
        share = float(self._vectors.knows(words).mean())
        if share < _LEAST_KNOWN_SHARE:
            raise StageError(
                f"vectors.path: {self.vectors} knows only {share:.0%} of the words of the corpus; "
                f"use vectors for the language {self.language!r} with lower-case words"
            )

    def pairs(self, rows: pa.Table) -> Pairs:
        """Return the words of both sentences of each row, and their vectors."""
        texts, paraphrases = rows["text"].to_pylist(), rows["paraphrase"].to_pylist()
        originals = self._table(texts, _tokens(rows, texts))
        targets = originals.tokens.starting_at(rows["target_start"].to_numpy())
        if len(targets) != rows.num_rows:
            raise StageError(
                "a target is not a word of its sentence: another version made this store; build into a new one"
            )
        return Pairs(originals, self._table(paraphrases, tokenize(paraphrases)), targets - originals.tokens.firsts)

    def _table(self, texts: Sequence[str], tokens: Tokens) -> WordTable:
        tokens = tokens.only_words(texts)
        words = tokens.lower(texts)
        return WordTable(texts, tokens, words, self._vectors.lookup(words))


@dataclass
class AlignTargets(_WithVectors):
    """Finds the word of the paraphrase that stands for the target."""

    name: ClassVar[str] = "align"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("text", "token_starts", "token_ends", "target", "target_start", "paraphrase")
    adds: ClassVar[tuple[str, ...]] = ("aligned_start", "aligned_end", "alignment")

    def process(self, rows: pa.Table) -> Result:
        """Align all rows at once; of several hypotheses, keep the one that teaches most."""
        if HYPOTHESES.name not in rows.column_names:
            return split_by_reason(*self._aligned(rows))
        each, of_row = one_per_row(rows)
        each, reasons = self._aligned(each)
        faulty = np.array([reason is not None for reason in reasons], bool)
        records = each.select(_OF_ALIGNMENT).to_pylist()
        differs = np.array([choose.is_another_word(record, self.criteria) for record in records], bool)
        chosen = preferred(of_row, faulty, differs, each["alignment"].to_numpy())
        return split_by_reason(each.take(pa.array(chosen)), [reasons[index] for index in chosen.tolist()])

    def _aligned(self, rows: pa.Table) -> tuple[pa.Table, list[str | None]]:
        """Return the rows with the aligned word of each, and why a paraphrase cannot be used."""
        pairs = self.pairs(rows)
        self.check_language(pairs.originals.words)
        word, cosine = chosen_words(choose.judge_alignment(pairs, self.criteria))
        originals, paraphrases = pairs.originals.tokens, pairs.paraphrases.tokens
        found = word >= 0
        index = np.where(found, paraphrases.firsts + word, 0)
        for name, values in (("aligned_start", paraphrases.starts), ("aligned_end", paraphrases.ends)):
            chosen = values[index] if len(values) else np.zeros(len(index), np.int32)
            rows = rows.append_column(name, pa.array(chosen, pa.int32(), mask=~found))
        rows = rows.append_column("alignment", pa.array(cosine, pa.float32(), mask=~found))
        known: npt.NDArray[np.bool_] = np.any(pairs.originals.vectors[originals.firsts + pairs.targets], axis=1)
        most = self.rules.max_unknown_words
        damaged = [most is not None and len(words) > most for words in self.unknown(pairs)]
        reasons = [
            "target has no vector" if not has_vector else None if aligned else "no aligned word"
            for aligned, has_vector in zip(found.tolist(), known.tolist(), strict=True)
        ]
        return rows, [why or DAMAGED if is_damaged else why for why, is_damaged in zip(reasons, damaged, strict=True)]

    def unknown(self, pairs: Pairs) -> list[list[str]]:
        """Return the words of each paraphrase that are probably damaged, if the rules ask for them."""
        if self.rules.max_unknown_words is None:
            return [[] for _ in pairs.targets]
        return unknown_words(pairs, self._vectors.knows)


class Tried(NamedTuple):
    """A slot to find a positive word for: the first words that would do, and how alike the sentences are."""

    slot: Slot
    verdicts: Sequence[Verdict]
    likeness: Sequence[float | None]


@dataclass(frozen=True)
class ScoredWord:
    """A word of a paraphrase that the original sentence does not account for, and how probable it is in its place."""

    word: str
    probability: float
    improbable: bool


class Answers(NamedTuple):
    """The models' answers about some rows."""

    slots: Sequence[Slot]
    """The slot of the target of each row."""
    aligned: Mapping[int, Slot]
    """The slots of aligned words that the masked LM was asked about, by row."""
    tried: Mapping[int, Tried]
    """The slots that a positive word was tried for, by row."""


@dataclass
class MakeTriples(_WithVectors):
    """Asks the masked LM which words fit, chooses among them, and puts the triple together."""

    name: ClassVar[str] = "mask"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("text", "target", "target_start", "target_end")
    adds: ClassVar[tuple[str, ...]] = tuple(name for name in TRIPLES.names if name != "unit")
    can_use_gpu: ClassVar[bool] = True

    masked: MaskedSettings = field(kw_only=True)
    store: Store | None = field(default=None, metadata={"content": False})
    device: str = field(default="auto", metadata={"content": False})
    resources: Resources = field(default_factory=Resources, kw_only=True, metadata={"content": False})

    def uses(self) -> Sequence[NamedModel]:
        """Return the vectors and the masked LM."""
        return [*super().uses(), NamedModel("masked", "hub", self.masked.model, self.masked.revision)]

    def gpu_need(self, shortest: int) -> GpuNeed | None:
        """Return the GPU memory that the masked LM takes."""
        return masked_need(self.masked, shortest, states=self.rules.context_min_cosine is not None)

    def gpu_only(self) -> GpuOnly | None:
        """Return the device or the number type, if only a GPU has it."""
        if self.device == "cuda":
            return GPU_BY_DEVICE
        if self.masked.dtype == "bfloat16":
            return GpuOnly("masked.dtype is bfloat16, which is too slow on CPUs", "masked.dtype=auto")
        return None

    def setup(self) -> None:
        """Load the masked LM, the vectors of all its words, and the words of the corpus that are names."""
        from corpusgen.models.masked_lm import MaskedPredictor  # torch: workers that read or align start without it

        super().setup()
        threads = max(1, int(self.resources.cpus))
        model, revision = confirmed(self.masked.model, self.masked.revision, self.models.get("masked"))
        settings = {**self.masked.model_dump(), "model": model, "revision": revision}
        self._predictor: MaskedPredictor = MaskedPredictor(**settings, device=self.device, threads=threads)
        self._words = [word.lower() for word in self._predictor.vocabulary]
        self._cased = self._words != self._predictor.vocabulary
        self._of_words, self._known = self._vectors.lookup(self._words), self._vectors.knows(self._words)
        if self.store:
            table = CommittedTable(self.store, "vocabulary", "vocabulary").to_table(["word", "count", "capital_share"])
            frequent = table.sort_by([("count", "descending")]).slice(0, _FREQUENT)["word"].to_pylist()
            self.check_language([word.lower() for word in frequent])
            if self.rules.in_vocabulary:
                shares = zip(table["word"].to_pylist(), table["capital_share"].to_pylist(), strict=True)
                names = {word.lower(): share > _MOSTLY for word, share in shares}
                self.criteria = replace(self.criteria, names=names)

    def process(self, rows: pa.Table) -> Result:
        """Ask about all rows at once, then choose row by row."""
        records = rows.to_pylist()
        answers = self.ask(rows, records)
        triples: list[dict[str, Any]] = []
        reasons: list[str | None] = []
        for slot, record in zip(answers.slots, records, strict=True):
            positive = self._positive(record, answers.tried.get(slot.row))
            words = choose.stands_for_target(record, positive.get("positive_word"))
            judged = choose.judge_negatives(slot, answers.aligned.get(slot.row), words, self.criteria)
            negative = choose.first_choice(judged)
            if negative is None:
                reasons.append(slot.problem or "no negative word")
            else:
                reasons.append(None if positive else "no positive word")
            triples.append({**positive, **(_negative_columns(slot, negative) if negative else {})})
        self._refuse_absurd(rows, reasons)
        for name in (name for name in self.adds if name not in rows.column_names):
            values = [triple.get(name) for triple in triples]
            rows = rows.append_column(name, pa.array(values, TRIPLES.field(name).type))
        return split_by_reason(rows, reasons)

    def _refuse_absurd(self, rows: pa.Table, reasons: list[str | None]) -> None:
        """Fill in the reason of rows that have none yet, but a paraphrase with an improbable word."""
        good = [row for row, reason in enumerate(reasons) if reason is None]
        for row, words in zip(good, self.new_words(rows.take(pa.array(good, pa.int64()))), strict=True):
            if any(word.improbable for word in words):
                reasons[row] = ABSURD

    def new_words(self, rows: pa.Table) -> list[list[ScoredWord]]:
        """Return the words of each paraphrase that its original does not account for, if the rules ask for them."""
        found: list[list[ScoredWord]] = [[] for _ in range(rows.num_rows)]
        least = self.rules.paraphrase_min_probability
        if least is None or "paraphrase" not in rows.column_names or not found:
            return found
        pairs = self.pairs(rows)
        new = unaccounted_words(pairs, self.criteria)
        texts, tokens = pairs.paraphrases.texts, pairs.paraphrases.tokens
        spans = [(int(tokens.starts[one.number]), int(tokens.ends[one.number])) for one in new]
        probabilities = self._predictor.probabilities([texts[one.pair] for one in new], spans)
        rounded: list[float] = probabilities.astype(np.float64).round(_DECIMALS).tolist()
        for one, probability in zip(new, rounded, strict=True):
            if not np.isnan(probability):
                found[one.pair].append(ScoredWord(one.word, probability, probability < least))
        return found

    def _positive(self, record: Mapping[str, Any], tried: Tried | None) -> dict[str, Any]:
        """Return the columns of the positive sentence; none if there is no positive word."""
        if tried:
            judged = choose.judge_in_context(tried.verdicts, tried.likeness, self.rules)
            if chosen := choose.first_choice(judged):
                return _predicted_positive(record, tried.slot, chosen)
        return _aligned_positive(record) if "paraphrase" in record else {}

    def ask(self, rows: pa.Table, records: Sequence[Mapping[str, Any]]) -> Answers:
        """Ask the models everything needed to choose the words of these rows, with one prediction for all slots.

        `records` are the same rows as dictionaries.
        """
        slots = [Slot(row, r["text"], (r["target_start"], r["target_end"])) for row, r in enumerate(records)]
        if "paraphrase" in rows.column_names:
            slots += choose.aligned_slots(records, self.criteria)
        slots = self._filled(slots, _tokens(rows, [slot.text for slot in slots]), records)
        originals, aligned = slots[: len(records)], {slot.row: slot for slot in slots[len(records) :]}
        of_positives = choose.slots_of_positives(originals, aligned, records, self.criteria)
        return Answers(originals, aligned, self._tried(of_positives, records))

    def _filled(self, slots: Sequence[Slot], tokens: Tokens, records: Sequence[Mapping[str, Any]]) -> list[Slot]:
        """Predict words for all slots and add their contexts; `tokens` are those of the slots' texts."""
        texts = [slot.text for slot in slots]
        predictions = self._predictor.predict(texts, [slot.span for slot in slots])
        of_targets = self._vectors.lookup([record["target"].lower() for record in records]).astype(np.float64)
        probabilities = predictions.probabilities.astype(np.float64).round(_DECIMALS)
        bounds = list(pairwise(predictions.offsets.tolist()))
        has_vector = self._known[predictions.words]
        if self._cased:
            vocabulary = [predictions.vocabulary[index] for index in predictions.words.tolist()]
            as_there = (
                choose.written_as_there(slot, vocabulary[a:b]) for slot, (a, b) in zip(slots, bounds, strict=True)
            )
            has_vector &= np.fromiter(chain.from_iterable(as_there), bool, len(vocabulary))
        tokens = tokens.only_words(texts)
        all_around = words_around(tokens, tokens.lower(texts), np.array([slot.span[0] for slot in slots], np.int64))
        unusable = choose.why_unusable(probabilities, has_vector, self.rules)
        filled = []
        for slot, around, (first, stop), problem in zip(slots, all_around, bounds, predictions.reasons, strict=True):
            indices = predictions.words[first:stop]
            words = [self._words[index] for index in indices.tolist()]
            cosines = np.round(self._of_words[indices].astype(np.float64) @ of_targets[slot.row], _DECIMALS)
            predicted = Candidates(words, probabilities[first:stop], cosines, unusable[first:stop])
            context = context_of(records[slot.row], *around, predicted, self.language)
            filled.append(Slot(*slot[:3], context, predicted, predicted.usable(), problem))
        return filled

    def _tried(self, slots: Sequence[Slot], records: Sequence[Mapping[str, Any]]) -> dict[int, Tried]:
        """Ask the masked LM how alike the sentences are with the first words that nothing speaks against."""
        tried = [choose.positives_to_try(slot, self.criteria) for slot in slots]
        possible = [(slot.row, verdict.word) for slot, some in zip(slots, tried, strict=True) for verdict in some]
        likeness = iter(self._likeness(possible, records))
        return {
            slot.row: Tried(slot, some, [next(likeness) for _ in some]) for slot, some in zip(slots, tried, strict=True)
        }

    def _likeness(
        self, possible: Sequence[tuple[int, str]], records: Sequence[Mapping[str, Any]]
    ) -> Sequence[float | None]:
        """Return how alike the masked LM finds the original sentence of a row with another word in it.

        None means that the rules do not ask.
        """
        if self.rules.context_min_cosine is None or not possible:
            return [None] * len(possible)
        rows = sorted({row for row, _ in possible})
        originals = [
            Slot(row, records[row]["text"], (records[row]["target_start"], records[row]["target_end"])) for row in rows
        ]
        of_row = dict(zip(rows, originals, strict=True))
        changed = [of_row[row].replaced("changed", word) for row, word in possible]
        texts = [slot.text for slot in originals] + [sentence["changed"] for sentence in changed]
        spans = [slot.span for slot in originals] + [(s["changed_start"], s["changed_end"]) for s in changed]
        states = self._predictor.states(texts, spans).astype(np.float64)
        number = {row: index for index, row in enumerate(rows)}
        before = states[[number[row] for row, _ in possible]]
        similar = np.einsum("ij,ij->i", before, states[len(rows) :])
        cosines: list[float] = np.round(similar, _DECIMALS).tolist()
        return cosines


def _tokens(rows: pa.Table, texts: Sequence[str]) -> Tokens:
    """Return the tokens of texts; the first texts are the sentences of the rows, which may bring their own tokens."""
    if not {"token_starts", "token_ends"}.issubset(rows.column_names):
        return tokenize(texts)
    return Tokens.joined(
        [Tokens.of_columns(rows["token_starts"], rows["token_ends"]), tokenize(texts[rows.num_rows :])]
    )


def _negative_columns(slot: Slot, chosen: Verdict) -> dict[str, Any]:
    scores = {"negative_cosine": chosen.cosine, "negative_probability": chosen.probability}
    return {**slot.replaced("negative", chosen.word), **scores}


def _predicted_positive(record: Mapping[str, Any], slot: Slot, chosen: Verdict) -> dict[str, Any]:
    rule = ENRICHED if "paraphrase" in record else SUBSTITUTION
    scores = {"positive_cosine": chosen.cosine, "positive_probability": chosen.probability}
    return {**_positive_columns(record["target"], rule, slot.replaced("positive", chosen.word)), **scores}


def _aligned_positive(record: Mapping[str, Any]) -> dict[str, Any]:
    sentence = sentence_columns("positive", record["paraphrase"], (record["aligned_start"], record["aligned_end"]))
    return {**_positive_columns(record["target"], ALIGNED, sentence), "positive_cosine": record["alignment"]}


def _positive_columns(target: str, rule: str, sentence: dict[str, Any]) -> dict[str, Any]:
    distance = edit_distance(target.lower(), sentence["positive_word"].lower())
    return {**sentence, "positive_rule": rule, "edit_distance": distance}
