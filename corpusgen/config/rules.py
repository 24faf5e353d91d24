"""Settings for the rules that choose the words of a triple: the paper's, and the stricter defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from corpusgen.config.section import Section

PAPER: Mapping[str, Any] = {
    "align_min_cosine": 0.6,
    "enrich_min_cosine": 0.6,
    "context_min_cosine": None,
    "enrich_min_probability": 0.003,
    "negative_max_cosine": 0.6,
    "negative_min_probability": 0.003,
    "negative_min_share": 0.0,
    "negative_min_agreement": 0.0,
    "substitution_cost": 1,
    "same_stem": False,
    "same_kind": False,
    "in_vocabulary": False,
    "same_class": False,
    "unrepeated": False,
}
"""AK21 §4.2: one λ for everything, chosen for that paper's vectors; the words themselves are not examined."""


class RuleSettings(Section):
    """How wp and wn are chosen. Cosines depend on the vectors: `corpusgen calibrate` suggests thresholds."""

    preset: Literal["strict", "paper"] = Field(
        "strict", description="defaults for the rules not set here; paper: exactly as published"
    )
    aligner: Literal["cosine", "zscore"] = Field(
        "cosine", description="cosine: Algorithm 4.1 of the paper; zscore: the rule of its published code"
    )
    align_min_cosine: float = Field(
        0.6, ge=-1, le=1, description="λ: minimum cosine of the target and the aligned word"
    )
    align_max_score: float = Field(-1.0, le=0, description="zscore aligner: maximum standard score")
    enrich: bool = Field(True, description="replace an aligned word that looks like the target with a predicted word")
    enrich_min_cosine: float = Field(
        0.65, ge=-1, le=1, description="minimum cosine of the target and the word that replaces the aligned one"
    )
    context_min_cosine: float | None = Field(
        0.85,
        ge=-1,
        le=1,
        description="minimum cosine of the masked LM's states of the target and of that word in its place; null: none",
    )
    enrich_min_probability: float = Field(0.01, ge=0, le=1, description="δ: minimum probability of that word")
    negatives: Literal["threshold", "mean_distance"] = Field(
        "threshold",
        description="threshold: the most probable word below negative_max_cosine; mean_distance: as published",
    )
    negative_max_cosine: float = Field(
        0.45, ge=-1, le=1, description="upper limit of the cosine of the target and the negative word"
    )
    negative_min_probability: float = Field(0.01, ge=0, le=1, description="δ: minimum probability of the negative word")
    negative_min_share: float = Field(
        0.08,
        ge=0,
        le=1,
        description="minimum probability of the negative word, as a fraction of the most probable word's",
    )
    negative_min_agreement: float = Field(
        0.01,
        ge=0,
        le=1,
        description="minimum probability of the negative word in place of the aligned word of the paraphrase",
    )
    mean_distance_min_probability: float = Field(
        0.001, ge=0, le=1, description="mean_distance: candidates must be more probable than this"
    )
    mean_distance_min_candidates: int = Field(3, ge=1, description="mean_distance: minimum number of candidates")
    similar_edit_distance: int = Field(3, ge=0, description="words within this edit distance look alike")
    substitution_cost: Literal[1, 2] = Field(2, description="cost of replacing a letter in that edit distance")
    same_stem: bool = Field(True, description="words with the same Snowball stem look alike, too")
    same_kind: bool = Field(True, description="never replace function words, nor use them in place of content words")
    in_vocabulary: bool = Field(
        True, description="predicted words must be in the corpus vocabulary, and be names exactly if the target is one"
    )
    same_class: bool = Field(
        True,
        description="predicted words must match the target's part of speech, number, tense and article (a or an)",
    )
    unrepeated: bool = Field(True, description="predicted words must not occur elsewhere in the sentence, in any form")
    max_unknown_words: int | None = Field(
        None,
        ge=0,
        description="reject a paraphrase with more words than this, apart from names and numbers, that neither the "
        "vectors nor the original sentence have; null: any number",
    )
    paraphrase_min_probability: float | None = Field(
        None,
        ge=0,
        le=1,
        description="reject a paraphrase with a word that the masked LM finds less probable than this in its place, if "
        "no word of the original sentence is as similar as align_min_cosine or looks like it; null: none",
    )

    added_later: ClassVar[frozenset[str]] = frozenset({"max_unknown_words", "paraphrase_min_probability"})

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any) -> Any:
        return {**PAPER, **given} if isinstance(given, dict) and given.get("preset") == "paper" else given

    @property
    def least_probability(self) -> float:
        """Return the probability below which no rule considers a candidate."""
        of_negative = {
            "threshold": self.negative_min_probability,
            "mean_distance": self.mean_distance_min_probability,
        }[self.negatives]
        return min(of_negative, self.enrich_min_probability, self.negative_min_agreement or 1.0)
