"""The objective `contrast`: one word in two contexts of the same meaning, against all other words of the batch.

Shapes: M members of a row, B rows, L layers, D dimensions, T terms of the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch.nn.functional import cosine_similarity, normalize

from corpusgen.errors import ConfigError
from distiller.settings import TrainSettings
from distiller.words.info_nce import (
    estimated_info_nce,
    for_all_workers,
    gathered,
    info_nce,
    others_of_same_sentence,
    others_of_same_word,
)
from distiller.words.judging import Forward, Judged, cosines_with
from distiller.words.losses import term_losses, terms_of
from distiller.words.model import Distilled, DistilledWithSentence, Distillers, TrainingPosition
from distiller.words.residual import ResidualModel, strongest
from distiller.words.row_facts import BatchFacts

ORIGINAL, POSITIVE, SAME_WORD, SAME_CONTEXT = range(4)
"""The members of a row, in the order of the axis M."""
_REBUILT = [ORIGINAL, POSITIVE, SAME_CONTEXT]
"""The members that are to each other as those of a triple: one of the same meaning, one of the same context."""


class Contrast:
    """Meaning: the original is nearer to the positive than to other words and to the same word with another meaning.

    Words that the frozen model finds similar are right answers, too, to a degree: most are related, some synonyms.

    Preservation: different words remain as similar as in the frozen model.

    Context: the original is nearer to another word of its sentence than to the same word in another sentence.

    Sentence: words whose mean is the vector of a text are told from other words alone, so that what a text is about
    stands out in it. The same word elsewhere is no negative there, and different words remain as similar as they were.

    Reconstruction, if it has a weight: meaning and context add up to the frozen vector, as in the paper.

    Inputs: rows of (original, positive, same word with perhaps another meaning, other word in the same context). A row
    may lack the last two. Rows about the same word are left out of each other's negatives, and so are contexts of the
    same sentence.
    """

    name: ClassVar[str] = "contrast"
    members: ClassVar[tuple[str, ...]] = ("original", "positive", "same_word", "same_context")
    optional: ClassVar[tuple[str, ...]] = ("same_word", "same_context")
    stops_by: ClassVar[tuple[str, ...]] = ("meaning", "preservation")

    def __init__(self, settings: TrainSettings) -> None:
        if settings.batch_size < 2:
            raise ConfigError("batch_size: 1, but contrast needs at least 2 rows: those of a batch are told apart")
        self._settings = settings
        self._contrast = settings.contrast
        others = settings.batch_size - 1
        self._same_word = settings.contrast.same_word_share * others
        self._same_word_of_context = settings.contrast.context_same_word_share * others

    @property
    def term_names(self) -> tuple[str, ...]:
        """Return the names of the terms of the loss, T of them."""
        contrast = self._contrast
        optional = {
            "preservation": contrast.preservation,
            "sentence": contrast.sentence_temperature,
            "reconstruction": contrast.reconstruction,
        }
        return ("meaning", "context", *(name for name, weight in optional.items() if weight))

    def new_model(self, layers: int, dimension: int) -> ResidualModel:
        """Return two distillers that give the frozen model's own vectors."""
        settings, contrast = self._settings, self._contrast
        base = self._top_half(layers) if contrast.base_layers is None else contrast.base_layers
        if base > layers:
            raise ConfigError(f"contrast.base_layers: {base}, but only {layers} layers of the frozen model are used")
        model = ResidualModel(
            layers, dimension, base, contrast.head, settings.heads, settings.dropout, settings.seed,
            with_sentence=contrast.sentence_temperature is not None,
        )  # fmt: skip
        if contrast.strength is not None:
            self._set_strength(model, contrast.strength)
        return model

    def _top_half(self, layers: int) -> int:
        """Return how many of the layers belong to the top half of the frozen model."""
        lowest = self._settings.backbone.first_layer
        if lowest is None:  # the top half is all there is
            return layers
        top = lowest + layers - 1
        return min(layers, top - top // 2)

    def _set_strength(self, model: ResidualModel, strength: float) -> None:
        model.meaning.strength.fill_(strength)
        if self._contrast.reconstruction:
            # Only corrections of equal strength still cancel each other out in the sum of meaning and context.
            model.context.strength.fill_(strength)

    def prepare(self, model: Distillers, some_states: Callable[[], torch.Tensor]) -> None:
        """Fit the mean of all words, from which corrections see words differ, if they do."""
        assert isinstance(model, ResidualModel)
        if self._contrast.centred:
            model.fit(some_states()[[ORIGINAL, POSITIVE]].flatten(0, 1))

    def settle(self, model: Distillers, held_out_states: Callable[[], torch.Tensor]) -> None:
        """Choose the strength of the correction, unless it is given."""
        assert isinstance(model, ResidualModel)
        if self._contrast.strength is None:
            pairs = held_out_states()[[ORIGINAL, POSITIVE]].to(model.meaning.strength.device)
            self._set_strength(model, strongest(*model.meaning.parts(pairs), self._contrast.kept))

    def losses(
        self, call: Forward, model: Distillers, states: torch.Tensor, facts: BatchFacts, position: TrainingPosition,
        weight: float,
    ) -> torch.Tensor:  # fmt: skip
        """Return the loss of each term of a step, (T,), with the rows of all workers as each other's negatives."""
        distilled = DistilledWithSentence(*(vectors.float() for vectors in call(states, position)))
        own = model.own(states)
        meaning, context, in_sentence = (gathered(vectors, position, 1) for vectors in distilled)
        frozen = gathered(own[[ORIGINAL, POSITIVE]], position, 1)
        all_facts = BatchFacts(*(gathered(values, position, 0) for values in facts))
        losses = [self._meaning(meaning, frozen, all_facts), self._context(context, all_facts)]
        if self._contrast.preservation:
            losses.append(self._contrast.preservation * _changed(meaning, frozen, all_facts.word))
        if self._contrast.sentence_temperature is not None:
            losses.append(self._sentence(in_sentence, frozen, all_facts, self._contrast.sentence_temperature))
        rebuilt = self._reconstruction(distilled, own, facts, weight)
        return torch.cat([for_all_workers(torch.stack(losses)), rebuilt])

    def _reconstruction(
        self, distilled: DistilledWithSentence, own: torch.Tensor, facts: BatchFacts, weight: float
    ) -> torch.Tensor:
        """Return the sum of the paper's terms of rows that count `weight` each, (1,), or (0,) if it is no term."""
        if not self._contrast.reconstruction:
            return own.new_empty(0)
        both = Distilled(distilled.meaning[_REBUILT], distilled.context[_REBUILT])
        has = torch.stack([facts.has(member) for member in _REBUILT])
        terms = term_losses(both, own[_REBUILT], terms_of(), weight, has)
        return self._contrast.reconstruction * terms.sum(0, keepdim=True)

    def _meaning(self, vectors: torch.Tensor, frozen: torch.Tensor, facts: BatchFacts) -> torch.Tensor:
        one, other = normalize(frozen, dim=-1)
        return info_nce(
            vectors[ORIGINAL], vectors[POSITIVE], vectors[SAME_WORD], facts.has(SAME_WORD),
            others_of_same_word(facts), self._contrast.temperature, self._same_word,
            also=one @ other.mT / self._contrast.similar_temperature, also_share=self._contrast.similar_share,
        )  # fmt: skip

    def _sentence(
        self, vectors: torch.Tensor, frozen: torch.Tensor, facts: BatchFacts, temperature: float
    ) -> torch.Tensor:
        no_negative = torch.zeros_like(facts.has(SAME_WORD))
        told_apart = info_nce(
            vectors[ORIGINAL], vectors[POSITIVE], vectors[SAME_WORD], no_negative, others_of_same_word(facts),
            temperature, weight=0,
        )  # fmt: skip
        return told_apart + self._contrast.preservation * _changed(vectors, frozen, facts.word)

    def _context(self, vectors: torch.Tensor, facts: BatchFacts) -> torch.Tensor:
        """Return the loss of the rows that have another word in the same context."""
        has = facts.has(SAME_CONTEXT)
        return info_nce(
            vectors[ORIGINAL], vectors[SAME_CONTEXT], vectors[POSITIVE], has,
            others_of_same_word(facts) | others_of_same_sentence(facts), self._contrast.context_temperature,
            self._same_word_of_context, has_partner=has,
        )  # fmt: skip

    def judge(self, model: Distillers, states: torch.Tensor, facts: BatchFacts) -> Judged:
        """Return sums over all rows but the first; the order counts where there is the same word in another document.

        Losses are estimated with the row before as the only unrelated one.
        """
        distilled = DistilledWithSentence(*model(states))
        facts = facts.after_first()
        has_word, has_context = facts.has(SAME_WORD), facts.has(SAME_CONTEXT)
        before = [vectors[ORIGINAL, :-1] for vectors in distilled]
        distilled = DistilledWithSentence(*(vectors[:, 1:] for vectors in distilled))
        own = model.own(states)
        own_before, own = own[ORIGINAL, :-1], own[:, 1:]
        frozen_positive, frozen_negative = cosines_with(own, ORIGINAL, POSITIVE, SAME_WORD)
        positive, negative = cosines_with(distilled.meaning, ORIGINAL, POSITIVE, SAME_WORD)
        same_sentence, other_sentence = cosines_with(distilled.context, ORIGINAL, SAME_CONTEXT, POSITIVE)
        unrelated, unrelated_context, unrelated_in_sentence = (
            cosine_similarity(vectors[ORIGINAL], other, dim=-1)
            for vectors, other in zip(distilled, before, strict=True)
        )
        contrast, others = self._contrast, max(1, self._settings.batch_size - 1)
        meaning = estimated_info_nce(
            positive, negative, has_word, unrelated, contrast.temperature, self._same_word, others
        )
        context = estimated_info_nce(
            same_sentence, other_sentence, has_context, unrelated_context, contrast.context_temperature,
            self._same_word_of_context, others,
        )  # fmt: skip
        losses = [meaning.double().sum(), context[has_context].double().sum()]
        frozen_unrelated = cosine_similarity(own[ORIGINAL], own_before, dim=-1)
        changed, changed_in_sentence = (
            contrast.preservation * (cosines - frozen_unrelated).double().square().sum()
            for cosines in (unrelated, unrelated_in_sentence)
        )
        if contrast.preservation:
            losses.append(changed)
        if contrast.sentence_temperature is not None:
            (together,) = cosines_with(distilled.in_sentence, ORIGINAL, POSITIVE)
            told_apart = estimated_info_nce(
                together, together, has_word, unrelated_in_sentence, contrast.sentence_temperature, 0, others
            )
            losses.append(told_apart.double().sum() + changed_in_sentence)
        rebuilt = self._reconstruction(distilled, own, facts, weight=1.0)
        ordered = [(positive > negative, has_word), (frozen_positive > frozen_negative, has_word)]
        figures = [(positive, None), (negative, has_word), (unrelated, None), *ordered]
        return Judged.of(torch.cat([torch.stack(losses), rebuilt]), figures)


def _changed(meaning: torch.Tensor, frozen: torch.Tensor, word: torch.Tensor) -> torch.Tensor:
    """Return the mean square of how cosines of different words differ from the frozen model's."""
    cosines, frozen_cosines = (
        vectors @ vectors.mT
        for vectors in (normalize(some[[ORIGINAL, POSITIVE]].flatten(0, 1), dim=-1) for some in (meaning, frozen))
    )
    words = word.repeat(2)
    different = words[:, None] != words[None]
    return ((cosines - frozen_cosines).square() * different).sum() / different.sum().clamp(min=1)
