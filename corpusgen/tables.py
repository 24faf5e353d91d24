"""The schemas of all tables of a corpus; docs/triples.md explains the columns of triples."""

from __future__ import annotations

import pyarrow as pa


def _field(name: str, kind: pa.DataType, description: str) -> pa.Field:
    return pa.field(name, kind, metadata={"description": description})


# ------------------------------------------------------------------------------------ text

PROVENANCE = (("source", pa.string()), ("article", pa.string()), ("title", pa.string()), ("revision", pa.string()))
"""Where a text comes from: its file and, if known, the article's id, title and revision."""

ARTICLES = pa.schema([*PROVENANCE, ("text", pa.string())])

PARAGRAPHS = pa.schema([*PROVENANCE, ("paragraph", pa.int32()), ("text", pa.string())])

SENTENCES = pa.schema(
    [
        ("id", pa.string()),
        *PROVENANCE,
        ("paragraph", pa.int32()),
        ("sentence", pa.int32()),
        ("text", pa.string()),
        ("token_starts", pa.list_(pa.int32())),
        ("token_ends", pa.list_(pa.int32())),
    ]
)
"""`text[token_starts[i]:token_ends[i]]` is the i-th token. `id` is a hash of the sentence's position and text."""

_OFFSETS = pa.list_(pa.int32())
KEPT_PARAGRAPHS = pa.schema(
    [
        _field("id", pa.string(), "id of the paragraph: a hash of its place and text"),
        _field("text", pa.string(), "the paragraph as it stands in the source"),
        _field("sentence_starts", _OFFSETS, "first character of each sentence"),
        _field("sentence_ends", _OFFSETS, "after the last character of each sentence"),
        _field("sentence_tokens", _OFFSETS, "number of tokens of each sentence"),
        _field("token_starts", _OFFSETS, "first character of each token"),
        _field("token_ends", _OFFSETS, "after the last character of each token"),
        *(_field(name, kind, f"{name} the paragraph comes from") for name, kind in PROVENANCE),
        _field("paragraph", pa.int32(), "number of the paragraph in the article"),
    ]
)
"""Whole paragraphs. Each token is in one sentence: the first `sentence_tokens[0]` tokens in the first, and so on."""

TEXT_REJECTS = pa.schema([("source", pa.string()), ("article", pa.string()), ("reason", pa.string())])
"""Texts from which no sentence was taken."""

# ------------------------------------------------------------------------- words and targets

COUNTS = pa.schema([("word", pa.string()), ("count", pa.int64())])

VOCABULARY = pa.schema([*COUNTS, ("rank", pa.int64()), ("capital_share", pa.float32())])

TOKEN_VOCABULARY = pa.schema(
    [
        _field("word", pa.string(), "a token in lower case"),
        _field("count", pa.int64(), "how often it occurs in the paragraphs"),
        _field("rank", pa.int64(), "1 for the most frequent one; ties by code points"),
    ]
)

CANDIDATES = pa.schema(
    [
        ("word", pa.string()),
        ("priority", pa.uint64()),
        ("sentence", pa.string()),  # or an integer, depending on the ids
        ("start", pa.int32()),
        ("end", pa.int32()),
    ]
)

SELECTION = pa.schema(
    [
        ("sentence", pa.string()),
        ("word", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("round", pa.int32()),
    ]
)

HYPOTHESES = pa.field("hypotheses", pa.list_(pa.struct([("pivot", pa.string()), ("paraphrase", pa.string())])))
"""Paraphrases of a sentence to choose from, between two stages; the chosen one is stored."""

TARGETS = pa.schema([*SENTENCES, ("target", pa.string()), ("target_start", pa.int32()), ("target_end", pa.int32())])
"""`text[target_start:target_end]` is the target, which occurs nowhere else in the sentence."""

# ----------------------------------------------------------------- pairs of one word in one document

REPEATS = pa.schema(
    [
        ("word", pa.string()),
        ("priority", pa.uint64()),
        ("document", pa.string()),
        ("first", pa.string()),
        ("first_start", pa.int32()),
        ("first_end", pa.int32()),
        ("second", pa.string()),
        ("second_start", pa.int32()),
        ("second_end", pa.int32()),
        ("overlap", pa.float32()),
        ("neighbour_start", pa.int32()),
        ("neighbour_end", pa.int32()),
    ]
)
"""Two occurrences of a word in one document, or one, with nulls for the second; `first` and `second` are sentences.

The neighbour is another content word of the first sentence, if there is one.
"""

CHOICE = pa.schema(
    [
        ("id", pa.string()),
        *(REPEATS.field(name) for name in REPEATS.names if name != "priority"),
        ("negative", pa.string()),
        ("negative_start", pa.int32()),
        ("negative_end", pa.int32()),
        ("round", pa.int32()),
    ]
)
"""The pairs of the corpus without their texts; `negative` is a sentence of another document, or null."""

CHOSEN_SENTENCES = pa.schema([field for field in SENTENCES if not field.name.startswith("token_")])
"""The sentences of the chosen pairs, each once."""

# --------------------------------------------------------------------------------- triples

ALIGNED, ENRICHED, SUBSTITUTION = "aligned", "enriched", "substitution"
"""The rules that can choose a positive word."""

_ORIGINAL = (
    _field("id", pa.string(), "id of the sentence: a hash of its place and text"),
    _field("target", pa.string(), "wt, the target word as it stands in the sentence"),
    _field("text", pa.string(), "S, the original sentence"),
    _field("target_start", pa.int32(), "first character of wt in S"),
    _field("target_end", pa.int32(), "after the last character of wt in S"),
)
_PROVENANCE = (
    *(_field(name, kind, f"{name} the sentence comes from") for name, kind in PROVENANCE),
    _field("paragraph", pa.int32(), "number of the paragraph in the article"),
    _field("sentence", pa.int32(), "number of the sentence in the paragraph"),
)

TRIPLES = pa.schema(
    [
        *_ORIGINAL,
        _field("positive", pa.string(), "Sp, the positive sentence: says the same"),
        _field("positive_word", pa.string(), "wp, the word that stands for wt there"),
        _field("positive_start", pa.int32(), "first character of wp in Sp"),
        _field("positive_end", pa.int32(), "after the last character of wp in Sp"),
        _field("negative", pa.string(), "Sn, the negative sentence: S with another word in the place of wt"),
        _field("negative_word", pa.string(), "wn, that other word"),
        _field("negative_start", pa.int32(), "first character of wn in Sn"),
        _field("negative_end", pa.int32(), "after the last character of wn in Sn"),
        _field("positive_rule", pa.string(), "what chose wp: aligned, enriched or substitution"),
        _field("alignment", pa.float32(), "cosine of wt and the aligned word; null without a paraphrase"),
        _field("positive_cosine", pa.float32(), "cosine of wt and wp"),
        _field("positive_probability", pa.float32(), "the masked LM's probability of wp; null if aligned"),
        _field("edit_distance", pa.int32(), "edit distance of wt and wp in lower case"),
        _field("negative_cosine", pa.float32(), "cosine of wt and wn"),
        _field("negative_probability", pa.float32(), "the masked LM's probability of wn"),
        _field("pivot", pa.string(), "S in the pivot language; null without a paraphrase"),
        *_PROVENANCE,
        _field("unit", pa.string(), "id of the unit of work that made the triple"),
    ]
)

PAIRS = pa.schema(
    [
        _field("id", pa.string(), "id of the pair; the part before the hyphen is that of the document"),
        _field("target", pa.string(), "the word"),
        _field("text", pa.string(), "a sentence with the word"),
        _field("target_start", pa.int32(), "first character of the word in it"),
        _field("target_end", pa.int32(), "after its last character"),
        _field("positive", pa.string(), "another sentence of the same document with the word"),
        _field("positive_word", pa.string(), "the word as it is written there"),
        _field("positive_start", pa.int32(), "first character of the word in it"),
        _field("positive_end", pa.int32(), "after its last character"),
        _field("negative", pa.string(), "another sentence with the word, of another document; null if none is found"),
        _field("negative_word", pa.string(), "the word as it is written there"),
        _field("negative_start", pa.int32(), "first character of the word in it"),
        _field("negative_end", pa.int32(), "after its last character"),
        _field("neighbour_word", pa.string(), "another content word of the first sentence; null if there is none"),
        _field("neighbour_start", pa.int32(), "its first character there"),
        _field("neighbour_end", pa.int32(), "after its last character"),
        _field("overlap", pa.float32(), "share of the words of both sentences that are in each of them"),
        _field("round", pa.int32(), "n for the n-th pair of its word"),
        *(_field(name, kind, f"{name} the pair comes from") for name, kind in PROVENANCE),
        _field("paragraph", pa.int32(), "number of the first sentence's paragraph in the document"),
        _field("sentence", pa.int32(), "number of the first sentence in its paragraph"),
        _field("positive_paragraph", pa.int32(), "number of the second sentence's paragraph"),
        _field("positive_sentence", pa.int32(), "number of the second sentence in its paragraph"),
        _field("negative_source", pa.string(), "source the negative comes from"),
        _field("negative_article", pa.string(), "article the negative comes from"),
        _field("negative_title", pa.string(), "title of that article"),
        _field("unit", pa.string(), "id of the unit of work that wrote the pair"),
    ]
)

TRIPLE_REJECTS = pa.schema(
    [
        *_ORIGINAL,
        _field("reason", pa.string(), "why there is no triple"),
        _field("pivot", pa.string(), "S in the pivot language, if it got so far"),
        _field("paraphrase", pa.string(), "and back, if it got so far"),
        _field("aligned_start", pa.int32(), "first character of the aligned word in the paraphrase, if it got so far"),
        _field("aligned_end", pa.int32(), "after its last character"),
        *_PROVENANCE,
        _field("unit", pa.string(), "id of the unit of work"),
    ]
)
"""Targets that did not become triples."""

PARAPHRASES_TABLE = "paraphrases"
PARAPHRASES = pa.schema(
    [
        _field("id", pa.string(), "id of the sentence of an enriched triple"),
        _field("paraphrase", pa.string(), "its paraphrase as the translator gave it, with the aligned word"),
    ]
)
"""The only translations not in triples or rejects; with this table, no target has to be translated again."""
