"""The tokenizer of a table of words: it cuts texts into the words that have a vector.

It is one of the library `tokenizers`, so that model2vec and others can use it too. Texts are cut as `corpusgen` cuts
them: a word may hold inner hyphens, apostrophes and full stops, any other mark stands alone. Words of a table that
this rule would cut, such as `u.s.` or `...`, are looked for first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_RULE = r"[\p{L}\p{N}_]+(?:[-'’.][\p{L}\p{N}_]+)*|[^\p{L}\p{N}_\s\x1c-\x1f]"
_WHOLE = re.compile(r"[a-z0-9]+", re.IGNORECASE)  # most words: nothing in them to cut
_UNKNOWN = "[UNK]"


def make_tokenizer(words: Sequence[str]) -> Tokenizer:
    """Return a tokenizer that gives each word its row; what it does not know gets the number after the last row.

    It lower-cases texts if all words are in lower case. Of equal words the first counts.
    """
    from tokenizers import AddedToken, Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Split

    rows: dict[str, int] = {}
    for row, word in enumerate(words):
        rows.setdefault(word, row)
    unknown = _UNKNOWN
    while unknown in rows:
        unknown = f"[{unknown}]"
    tokenizer = Tokenizer(WordLevel({**rows, unknown: len(words)}, unk_token=unknown))
    if is_lower_case(words):
        tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = splitter = Split(Regex(_RULE), "removed", invert=True)
    cut = [w for w in rows if w and not _WHOLE.fullmatch(w) and len(splitter.pre_tokenize_str(w)) != 1]
    # A word that begins or ends in a letter is not looked for inside of longer words.
    tokenizer.add_tokens([AddedToken(w, single_word=w[0].isalnum() or w[-1].isalnum()) for w in cut])
    return tokenizer


def is_lower_case(words: Sequence[str]) -> bool:
    """Return whether no word has a capital."""
    return all(word == word.lower() for word in words)
