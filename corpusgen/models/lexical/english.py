"""Facts about English words: function or content word, possible parts of speech, `a` or `an`."""

from __future__ import annotations

import functools

import lemminflect


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS = _words(
    """
    a an the this that these those each every either neither some any no none all both half several many much more most
    few fewer little less least enough such other another same own
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves one ones oneself someone somebody something anyone anybody
    anything everyone everybody everything nobody nothing who whom whose which what whoever whatever whichever
    am is are was were be been being do does did doing done have has had having can could may might must shall should
    will would ought need dare used
    and or but nor so yet for if unless because since although though while whereas whether than as until till once
    when whenever where wherever why how however therefore thus hence moreover furthermore nevertheless nonetheless
    meanwhile otherwise instead also too not never ever only just even still already again here there then now
    of in to from by with without within at on onto into over under above below between among amongst amid during
    before after against about around across along through throughout toward towards up down off out upon behind beside
    besides beyond near inside outside opposite per plus minus via despite except like unlike concerning regarding
    underneath beneath past versus
    very quite rather almost nearly perhaps maybe indeed else etc
    first second third two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
    million billion hundreds thousands millions dozen dozens
    """
)

PARTICLES = _words("up down off out away back apart together aside forth")

# Forms that no sentence reliably tells apart share a class: left of him, had left.
_CLASSES = {
    **{"NN": "noun", "NNS": "plural noun", "VB": "verb", "VBP": "verb", "VBZ": "verb with s", "VBG": "verb with ing"},
    **{"VBD": "past verb", "VBN": "past verb", "JJ": "adjective", "JJR": "comparative", "JJS": "superlative"},
    **{"RB": "adverb", "RBR": "comparative", "RBS": "superlative"},
}
_PLURAL_WITHOUT_S = _words("people police cattle")
# Word beginnings written with a vowel but spoken with a consonant, and the other way round.
_SPOKEN_CONSONANT = tuple(
    _words("eu ewe once one ubi ukr unanim uni ura ure uri uro uru usa use usi usu uta ute uti uto")
)
_SPOKEN_VOWEL = tuple(_words("heir honest honor honour hour oner uniden unima unimp unin"))


@functools.lru_cache(1 << 16)
def classes(word: str) -> frozenset[str]:
    """Return the parts of speech, with number and tense, that a lower-case word may be; none for an unknown word."""
    found = set()
    for part_of_speech, lemmas in lemminflect.getAllLemmas(word).items():
        for lemma in lemmas:
            for tag, forms in lemminflect.getAllInflections(lemma, upos=part_of_speech).items():
                own_plural = tag == "NNS" and lemma == word  # given for nouns without a plural: information
                if word in forms and tag in _CLASSES and not own_plural:
                    found.add(_CLASSES[tag])
    if word in _PLURAL_WITHOUT_S:
        found.add("plural noun")
    return frozenset(found)


def article_fits(before: str, word: str) -> bool:
    """Return whether the word can follow `before`, which matters only if that is `a` or `an`."""
    if before not in ("a", "an"):
        return True
    vowel = word.startswith(tuple("aeiou")) and not word.startswith(_SPOKEN_CONSONANT)
    return (before == "an") == (vowel or word.startswith(_SPOKEN_VOWEL))
