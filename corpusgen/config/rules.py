"""Settings for the rules that choose the words of a triple: the paper's, and the stricter defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

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
        "strict", description="where the values not given come from; paper: exactly as published"
    )
    aligner: Literal["cosine", "zscore"] = Field(
        "cosine", description="cosine: Algorithm 4.1; zscore: the rule of the paper's published code"
    )
    align_min_cosine: float = Field(0.6, ge=-1, le=1, description="λ: least cosine of the target and the aligned word")
    align_max_score: float = Field(-1.0, le=0, description="of the zscore aligner: largest standard score")
    enrich: bool = Field(True, description="replace an aligned word that looks like the target by a predicted one")
    enrich_min_cosine: float = Field(
        0.65, ge=-1, le=1, description="least cosine of the target and a word that replaces the aligned one"
    )
    context_min_cosine: float | None = Field(
        0.85,
        ge=-1,
        le=1,
        description="least cosine of the masked LM's states of the target and of such a word in its place; null: any",
    )
    enrich_min_probability: float = Field(0.01, ge=0, le=1, description="δ: least probability of such a word")
    negatives: Literal["threshold", "mean_distance"] = Field(
        "threshold",
        description="threshold: the most probable word below negative_max_cosine; mean_distance: of the published code",
    )
    negative_max_cosine: float = Field(
        0.45, ge=-1, le=1, description="the cosine of the target and the negative word is below this"
    )
    negative_min_probability: float = Field(0.01, ge=0, le=1, description="δ: least probability of the negative word")
    negative_min_share: float = Field(
        0.08, ge=0, le=1, description="and at least this share of the probability of the most probable word there"
    )
    negative_min_agreement: float = Field(
        0.01, ge=0, le=1, description="and its least probability in the place of the aligned word of the paraphrase"
    )
    mean_distance_min_probability: float = Field(
        0.001, ge=0, le=1, description="of mean_distance: candidates are more probable than this"
    )
    mean_distance_min_candidates: int = Field(3, ge=1, description="of mean_distance: fewest candidates")
    similar_edit_distance: int = Field(3, ge=0, description="words this near by their letters look alike")
    substitution_cost: Literal[1, 2] = Field(2, description="of a replaced letter, in telling whether words look alike")
    same_stem: bool = Field(True, description="words of one Snowball stem look alike too")
    same_kind: bool = Field(
        True, description="a function word never stands for a content word, and is itself never replaced"
    )
    in_vocabulary: bool = Field(
        True, description="a predicted word is in the vocabulary of the corpus, and a name just if the target is"
    )
    same_class: bool = Field(
        True, description="a predicted word may be what the target is: part of speech, number, tense; a and an fit too"
    )
    unrepeated: bool = Field(
        True, description="a predicted word, or another form of it, occurs nowhere else in the sentence"
    )

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
