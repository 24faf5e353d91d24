"""From targets to triples, as stages: read, (translate, align,) mask."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusgen.config.build import MaskedSettings
from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.align import Sentences, align, align_zscore
from corpusgen.corpus.triples.contexts import Place, class_of_place, is_name
from corpusgen.corpus.triples.negatives import largest_cosine, why_not_negative
from corpusgen.corpus.triples.positives import looks_like, match_case, why_not_positive
from corpusgen.corpus.triples.slots import Judged, Pairs, Seen, Slot, Words, sentence_columns
from corpusgen.engine import Resources, Result, Stage, split_by_reason
from corpusgen.engine.parts import ReadRows
from corpusgen.engine.stage import GPU_BY_DEVICE, GpuOnly
from corpusgen.errors import StageError
from corpusgen.models.gpu_memory import GpuNeed, masked_need
from corpusgen.models.identity import NamedModel, confirmed
from corpusgen.models.lexical import edit_distance, same_kind
from corpusgen.models.vectors import WordVectors, open_vectors
from corpusgen.store import CommittedTable, Store
from corpusgen.tables import ALIGNED, ENRICHED, SUBSTITUTION, TARGETS, TRIPLES

if TYPE_CHECKING:
    from corpusgen.models.masked_lm import MaskedPredictor

_LIGHT = Resources(cpus=0.05)
_WORDS_TO_JUDGE_BY = 200
_LEAST_KNOWN_SHARE = 0.5
_FREQUENT = 1000  # words of the vocabulary: the rarest of it may be unknown to good vectors too
_MOSTLY = 0.5  # share of capitals from which a word is a name
_MOST_TRIED = 3  # predicted words that the masked LM is asked about again
_NOTHING = np.zeros(0)
_DECIMALS = 5  # what is decided by and stored: the same on every machine, however many threads add up


@dataclass
class ReadTargets(ReadRows):
    """The targets of a unit."""

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
        """Return the file of vectors and, if it is one of its own, that of their words."""
        words = [NamedModel("vectors.words", "files", self.vector_words)] if self.vector_words else []
        return [NamedModel("vectors", "files", self.vectors), *words]

    def setup(self) -> None:
        """Open the vectors."""
        path, _ = confirmed(self.vectors, None, self.models.get("vectors"))
        words = self.vector_words and confirmed(self.vector_words, None, self.models.get("vectors.words"))[0]
        self._vectors: WordVectors = open_vectors(path, words, self.max_words)

    def check_language(self, words: Sequence[str]) -> None:
        """StageError if these vectors know few of the words of the corpus, all in lower case."""
        if len(words) < _WORDS_TO_JUDGE_BY:
            return
        share = float(self._vectors.knows(words).mean())
        if share < _LEAST_KNOWN_SHARE:
            raise StageError(
                f"vectors.path: {self.vectors} knows only {share:.0%} of the words of the corpus; "
                f"are these vectors of the language {self.language!r}, and of words in lower case?"
            )


@dataclass
class AlignTargets(_WithVectors):
    """Finds the word of the paraphrase that stands for the target."""

    name: ClassVar[str] = "align"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("text", "token_starts", "token_ends", "target", "target_start", "paraphrase")
    adds: ClassVar[tuple[str, ...]] = ("aligned_start", "aligned_end", "alignment")

    def process(self, rows: pa.Table) -> Result:
        """Align all rows at once."""
        pairs = self.pairs(rows)
        originals, paraphrases = pairs.originals, pairs.paraphrases
        self.check_language(originals.words)
        compared = (
            Sentences(pairs.of_originals, originals.counts),
            pairs.targets,
            Sentences(pairs.of_paraphrases, paraphrases.counts),
        )
        if self.rules.aligner == "cosine":
            word, cosine = align(*compared, self.rules.align_min_cosine, pairs.marks)
        else:
            word, cosine = align_zscore(*compared, self.rules.align_max_score, pairs.marks)
        found = word >= 0
        index = np.where(found, paraphrases.firsts + word, 0)
        for name, values in (("aligned_start", paraphrases.starts), ("aligned_end", paraphrases.ends)):
            chosen = values[index] if len(values) else np.zeros(len(index), np.int32)
            rows = rows.append_column(name, pa.array(chosen, pa.int32(), mask=~found))
        rows = rows.append_column("alignment", pa.array(cosine, pa.float32(), mask=~found))
        known: npt.NDArray[np.bool_] = np.any(pairs.of_originals[originals.firsts + pairs.targets], axis=1)
        reasons = [
            "target has no vector" if not has_vector else None if aligned else "no aligned word"
            for aligned, has_vector in zip(found.tolist(), known.tolist(), strict=True)
        ]
        return split_by_reason(rows, reasons)

    def pairs(self, rows: pa.Table) -> Pairs:
        """The words of both sentences, and what is known of them."""
        starts, ends = (rows[name].combine_chunks() for name in ("token_starts", "token_ends"))
        originals = Words.of(rows["text"].to_pylist(), starts.value_lengths(), starts.flatten(), ends.flatten())
        paraphrases = Words.tokenized(rows["paraphrase"].to_pylist())
        targets = originals.at(rows["target_start"].to_numpy()) - originals.firsts
        marks = None
        if self.rules.aligner == "zscore":
            marks = self._alike(rows["target"].to_pylist(), paraphrases)
        elif self.rules.same_kind:
            marks = self._allowed(rows["target"].to_pylist(), paraphrases)
        vectors = (self._vectors.lookup(words.words) for words in (originals, paraphrases))
        return Pairs(originals, paraphrases, targets, marks, *vectors)

    def _allowed(self, targets: Sequence[str], paraphrases: Words) -> npt.NDArray[np.bool_]:
        words = zip(paraphrases.words, paraphrases.rows.tolist(), strict=True)
        lower = [target.lower() for target in targets]
        return np.fromiter((same_kind(word, lower[row], self.language) for word, row in words), bool)

    def _alike(self, targets: Sequence[str], paraphrases: Words) -> npt.NDArray[np.bool_]:
        words = zip(paraphrases.words, paraphrases.rows.tolist(), strict=True)
        return np.fromiter((looks_like(word, targets[row], self.rules, self.language) for word, row in words), bool)


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
        """Return what the masked LM takes."""
        return masked_need(self.masked, shortest, states=self.rules.context_min_cosine is not None)

    def gpu_only(self) -> GpuOnly | None:
        """Return the device or the type of numbers, if it is a GPU's."""
        if self.device == "cuda":
            return GPU_BY_DEVICE
        if self.masked.dtype == "bfloat16":
            return GpuOnly("masked.dtype is bfloat16, which is not for CPUs", "masked.dtype=auto")
        return None

    def setup(self) -> None:
        """Load the masked LM, the vectors of all its words, and which words of the corpus are names."""
        from corpusgen.models.masked_lm import MaskedPredictor  # torch: a worker that reads or aligns starts without it

        super().setup()
        threads = max(1, int(self.resources.cpus))
        model, revision = confirmed(self.masked.model, self.masked.revision, self.models.get("masked"))
        settings = {**self.masked.model_dump(), "model": model, "revision": revision}
        self._predictor: MaskedPredictor = MaskedPredictor(**settings, device=self.device, threads=threads)
        words = [word.lower() for word in self._predictor.vocabulary]
        self._cased = words != self._predictor.vocabulary
        self._of_words, self._known = self._vectors.lookup(words), self._vectors.knows(words)
        self._names: dict[str, bool] = {}
        if self.store:
            table = CommittedTable(self.store, "vocabulary", "vocabulary").to_table(["word", "count", "capital_share"])
            frequent = table.sort_by([("count", "descending")]).slice(0, _FREQUENT)["word"].to_pylist()
            self.check_language([word.lower() for word in frequent])
            if self.rules.in_vocabulary:
                shares = zip(table["word"].to_pylist(), table["capital_share"].to_pylist(), strict=True)
                self._names = {word.lower(): share > _MOSTLY for word, share in shares}

    def process(self, rows: pa.Table) -> Result:
        """One prediction for all places of all rows, then row by row."""
        records = rows.to_pylist()
        round_trip = "paraphrase" in rows.column_names
        slots, aligned = self.slots(records, round_trip)
        positives = self._predicted_positives(self.slots_of_positives(slots, aligned, records, round_trip), records)
        triples: list[dict[str, Any]] = []
        reasons: list[str | None] = []
        for slot, record in zip(slots, records, strict=True):
            positive = positives.get(slot.row) or (_aligned_positive(record) if round_trip else None)
            negative = self._negative(slot, aligned.get(slot.row), stands_for_target(record, positive))
            if negative is None:
                reasons.append(slot.problem or "no negative word")
            else:
                reasons.append(None if positive else "no positive word")
            triples.append({**(positive or {}), **(negative or {})})
        for name in (name for name in self.adds if name not in rows.column_names):
            values = [triple.get(name) for triple in triples]
            rows = rows.append_column(name, pa.array(values, TRIPLES.field(name).type))
        return split_by_reason(rows, reasons)

    def slots(
        self, records: Sequence[Mapping[str, Any]], round_trip: bool
    ) -> tuple[Sequence[Slot], Mapping[int, Slot]]:
        """The places of all targets and, by row, those of aligned words, with what is predicted there."""
        slots = [Slot(row, r["text"], (r["target_start"], r["target_end"])) for row, r in enumerate(records)]
        if round_trip:
            slots += self.aligned_slots(records)
        slots = self._filled(slots, records)
        return slots[: len(records)], {slot.row: slot for slot in slots[len(records) :]}

    def slots_of_positives(
        self,
        slots: Sequence[Slot],
        aligned: Mapping[int, Slot],
        records: Sequence[Mapping[str, Any]],
        round_trip: bool,
    ) -> Sequence[Slot]:
        """The places where a positive word is looked for: of paraphrases those where the aligned one teaches little."""
        if not round_trip:
            return slots
        return [slot for slot in aligned.values() if self._looks_like_target(records[slot.row])]

    def aligned_slots(self, records: Sequence[Mapping[str, Any]]) -> list[Slot]:
        """The places of the aligned words that anything is asked about: another word for them, or agreement."""
        return [
            Slot(row, record["paraphrase"], (record["aligned_start"], record["aligned_end"]))
            for row, record in enumerate(records)
            if self.rules.negative_min_agreement or self._looks_like_target(record)
        ]

    def _looks_like_target(self, record: Mapping[str, Any]) -> bool:
        """Whether the aligned word is so near to the target that another one would teach more."""
        word = record["paraphrase"][record["aligned_start"] : record["aligned_end"]]
        name = is_name(record["target"], record["target_start"])
        return self.rules.enrich and not name and looks_like(word, record["target"], self.rules, self.language)

    def _filled(self, slots: Sequence[Slot], records: Sequence[Mapping[str, Any]]) -> list[Slot]:
        """With what is predicted there and known of it."""
        predictions = self._predictor.predict([slot.text for slot in slots], [slot.span for slot in slots])
        targets = [record["target"].lower() for record in records]
        of_targets = self._vectors.lookup(targets).astype(np.float64)
        words_of = Words.tokenized([slot.text for slot in slots]).by_row()
        filled = []
        for index, (slot, words) in enumerate(zip(slots, words_of, strict=True)):
            indices = predictions.words[predictions.offsets[index] : predictions.offsets[index + 1]]
            predicted = predictions[index]
            candidates = [word.lower() for word in predicted.words]
            probabilities = predicted.probabilities.astype(np.float64).round(_DECIMALS)
            record, target = records[slot.row], targets[slot.row]
            others = {word for start, word in words.items() if start != slot.span[0]}
            before = [word for start, word in words.items() if start < slot.span[0]]
            place = Place(
                target=target,
                name=is_name(record["target"], record["target_start"]),
                abbreviation=record["target"].isupper(),
                before=before[-1] if before else "",
                others=others,
                best=float(probabilities[0]) if len(probabilities) else 0.0,
                word_class=class_of_place(target, candidates, probabilities, self.language),
            )
            cosines = np.round(self._of_words[indices].astype(np.float64) @ of_targets[slot.row], _DECIMALS)
            # Down to the least probability that any rule asks for, only words that have a vector of their own, and of
            # a cased model's those that are written as they would be in that place: others' probability is not theirs.
            usable = (probabilities >= self.rules.least_probability) & self._known[indices]
            if self._cased:
                usable &= np.array([word == match_case(word, slot.surface) for word in predicted.words], bool)
            kept = np.flatnonzero(usable)
            filled.append(
                slot._replace(
                    place=place,
                    words=[candidates[i] for i in kept],
                    probabilities=probabilities[kept],
                    cosines=cosines[kept],
                    problem=predicted.reason,
                    seen=Seen(candidates, probabilities, cosines, kept),
                )
            )
        return filled

    def judged_negatives(self, slot: Slot, aligned: Slot | None, positives: Collection[str]) -> Iterator[Judged]:
        """Each candidate, and why it cannot be the negative one.

        `aligned` is the place in the paraphrase, if it was asked about; `positives` what `stands_for_target` says.
        """
        assert slot.place
        elsewhere = dict(zip(aligned.words, aligned.probabilities.tolist(), strict=True)) if aligned else None
        place, rules = replace(slot.place, elsewhere=elsewhere, positives=positives), self.rules
        bound = largest_cosine(slot.words, slot.cosines, slot.probabilities, place.target, rules)
        for word, probability, cosine in slot.candidates():
            problem = why_not_negative(word, place, cosine, probability, bound, rules, self._names, self.language)
            yield Judged(word, probability, cosine, problem)

    def _negative(self, slot: Slot, aligned: Slot | None, positives: Collection[str]) -> dict[str, Any] | None:
        """The most probable word that may be the negative one."""
        for word, probability, cosine, problem in self.judged_negatives(slot, aligned, positives):
            if problem is None:
                scores = {"negative_cosine": cosine, "negative_probability": probability}
                return {**slot.replaced("negative", word), **scores}
        return None

    def judged_positives(self, slot: Slot) -> Iterator[Judged]:
        """Each candidate, and why it cannot stand for the target, as far as words alone tell."""
        assert slot.place
        for word, probability, cosine in slot.candidates():
            problem = why_not_positive(word, slot.place, cosine, probability, self.rules, self._names, self.language)
            yield Judged(word, probability, cosine, problem)

    def tried_positives(
        self, slots: Sequence[Slot], records: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[Slot, Judged, float | None]]:
        """The first few words of each place that nothing speaks against, and how much alike the sentences are then."""
        tried = [
            (slot, judged)
            for slot in slots
            for judged in itertools.islice((j for j in self.judged_positives(slot) if j.problem is None), _MOST_TRIED)
        ]
        likeness = self._likeness([(slot, judged.word) for slot, judged in tried], records)
        for (slot, judged), cosine in zip(tried, likeness, strict=True):
            yield slot, judged, cosine

    def says_the_same(self, likeness: float | None) -> bool:
        """Whether a sentence with another word in it is enough like the original."""
        least = self.rules.context_min_cosine
        return likeness is None or least is None or likeness >= least

    def _predicted_positives(
        self, slots: Sequence[Slot], records: Sequence[Mapping[str, Any]]
    ) -> dict[int, dict[str, Any]]:
        """For each row that has one the most probable word that can stand for the target."""
        positives: dict[int, dict[str, Any]] = {}
        for slot, judged, likeness in self.tried_positives(slots, records):
            if slot.row not in positives and self.says_the_same(likeness):
                record = records[slot.row]
                rule = ENRICHED if "paraphrase" in record else SUBSTITUTION
                positives[slot.row] = {
                    **_positive(record["target"], rule, slot.replaced("positive", judged.word)),
                    "positive_cosine": judged.cosine,
                    "positive_probability": judged.probability,
                }
        return positives

    def _likeness(
        self, possible: Sequence[tuple[Slot, str]], records: Sequence[Mapping[str, Any]]
    ) -> Sequence[float | None]:
        """How much alike, for the masked LM itself, the original sentence is with the other word in it; None: any."""
        if self.rules.context_min_cosine is None or not possible:
            return [None] * len(possible)
        rows = sorted({slot.row for slot, _ in possible})
        originals = [
            Slot(row, records[row]["text"], (records[row]["target_start"], records[row]["target_end"])) for row in rows
        ]
        of_row = dict(zip(rows, originals, strict=True))
        changed = [of_row[slot.row].replaced("changed", word) for slot, word in possible]
        texts = [slot.text for slot in originals] + [sentence["changed"] for sentence in changed]
        spans = [slot.span for slot in originals] + [(s["changed_start"], s["changed_end"]) for s in changed]
        states = self._predictor.states(texts, spans).astype(np.float64)
        number = {row: index for index, row in enumerate(rows)}
        before = states[[number[slot.row] for slot, _ in possible]]
        similar = np.einsum("ij,ij->i", before, states[len(rows) :])
        cosines: list[float] = np.round(similar, _DECIMALS).tolist()
        return cosines


def stands_for_target(record: Mapping[str, Any], positive: Mapping[str, Any] | None) -> frozenset[str]:
    """The word of the positive sentence, and of the paraphrase that it was made of: neither can be the negative one."""
    words = [positive["positive_word"]] if positive else []
    if "paraphrase" in record:
        words.append(record["paraphrase"][record["aligned_start"] : record["aligned_end"]])
    return frozenset(word.casefold() for word in words)


def _positive(target: str, rule: str, sentence: dict[str, Any]) -> dict[str, Any]:
    distance = edit_distance(target.lower(), sentence["positive_word"].lower())
    return {**sentence, "positive_rule": rule, "edit_distance": distance}


def _aligned_positive(record: Mapping[str, Any]) -> dict[str, Any]:
    sentence = sentence_columns("positive", record["paraphrase"], (record["aligned_start"], record["aligned_end"]))
    return {**_positive(record["target"], ALIGNED, sentence), "positive_cosine": record["alignment"]}
