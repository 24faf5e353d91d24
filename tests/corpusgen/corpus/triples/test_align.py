"""Algorithm 4.1 and the rule of the published code: by hand, against plain loops, and the same in any company."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.corpus.triples.align import Passed, Sentences, chosen_words, judge_by_cosine, judge_by_score

NONE = -1
THRESHOLD = 0.6


def align(*pairs):
    return chosen_words(judge_by_cosine(*pairs))


def align_zscore(*pairs):
    return chosen_words(judge_by_score(*pairs))


def sentences(vectors, dimension):
    """A list of vectors for each sentence."""
    flat = [vector for sentence in vectors for vector in sentence]
    padded = [[*vector, *[0.0] * (dimension - len(vector))] for vector in flat]
    matrix = np.array(padded, np.float32).reshape(len(flat), dimension)
    return Sentences(matrix, np.array([len(sentence) for sentence in vectors], np.int64))


def vectors_of(matrices):
    """Vectors whose products are exactly these: each word of a paraphrase is an axis of its own."""
    dimension = max([1, *(len(matrix[0]) for matrix in matrices if matrix)])
    axes = [np.eye(len(matrix[0]) if matrix else 0).tolist() for matrix in matrices]
    return sentences(matrices, dimension), sentences(axes, dimension)


def align_matrices(matrices, targets, marks=None, aligner=align, threshold=THRESHOLD):
    """The aligned word of each pair, given its cosines: a row for each word of the original."""
    originals, paraphrases = vectors_of(matrices)
    flat = None if marks is None else np.array([mark for some in marks for mark in some], bool)
    return aligner(originals, np.array(targets, np.int64), paraphrases, threshold, flat)


def aligned(matrix, target, mark=None, **options):
    return align_matrices([matrix], [target], None if mark is None else [mark], **options).word.item()


def taken_by_others(matrix, target):
    """The words of the paraphrase that are the mutual best of another word than the target."""
    taken = set()
    for i, row in enumerate(matrix):
        j = row.index(max(row))
        column = [other[j] for other in matrix]
        if i != target and column.index(max(column)) == i:
            taken.add(j)
    return taken


def literal(matrix, target, allowed, threshold=THRESHOLD):
    """Algorithm 4.1, step by step."""
    if not matrix[target]:
        return NONE
    taken = taken_by_others(matrix, target)
    of_target = matrix[target]
    for j in sorted(range(len(of_target)), key=lambda j: -of_target[j]):
        if j not in taken and of_target[j] >= threshold and allowed[j]:
            return j
    return NONE


def literal_zscore(matrix, target, alike, threshold=-1.0):
    """The rule of the published code, step by step."""
    if any(alike):
        return min((j for j, is_alike in enumerate(alike) if is_alike), key=lambda j: abs(j - target))
    if not matrix[target]:
        return NONE
    scores = {}
    for j in range(len(matrix[target])):
        distances = [1 - row[j] for row in matrix]
        deviation = statistics.pstdev(distances)
        if round(deviation, 5) > 0:
            scores[j] = round((distances[target] - statistics.fmean(distances)) / deviation, 5)
    taken = taken_by_others(matrix, target)
    for j in sorted(scores, key=scores.__getitem__):
        if j not in taken and scores[j] <= threshold:
            return j
    return NONE


GOLDEN = {
    "the most similar word": ([[0.9, 0.1, 0.2], [0.1, 0.7, 0.65]], 1, 1),
    "the best is taken, so the next": ([[0.9, 0.2], [0.8, 0.7]], 1, 1),
    "two are taken, so the third": ([[0.9, 0, 0], [0, 0.95, 0], [0.8, 0.7, 0.65]], 2, 2),
    "the best is taken and the next too far": ([[0.9, 0.2], [0.8, 0.5]], 1, NONE),
    "the only word is taken": ([[0.9], [0.8]], 1, NONE),
    "wanted by another word, but nearer to the target": ([[0.8, 0.1], [0.9, 0.2]], 1, 0),
    "nearer to another word that has a better one": ([[0.95, 0.9], [0.1, 0.8]], 1, 1),
    "mutual best of the target itself": ([[0.9, 0.3], [0.2, 0.8]], 0, 0),
    "of equals the first": ([[0.7, 0.8, 0.8]], 0, 1),
    "another word that is as near comes first, and takes it": ([[0.8, 0.1], [0.8, 0.7]], 1, 1),
    "another word that is as near comes later": ([[0.8, 0.1], [0.8, 0.7]], 0, 0),
    "another word takes the first of its equals": ([[0.9, 0.9], [0.7, 0.8]], 1, 1),
    "another word takes the first of its equals, not the second": ([[0.9, 0.9], [0.8, 0.7]], 1, 1),
    "all too far": ([[0.59, 0.3], [0.1, 0.2]], 0, NONE),
    "exactly at the threshold": ([[0.3, 0.6]], 0, 1),
    "just below the threshold": ([[0.3, 0.59998]], 0, NONE),
    "opposite": ([[-0.9, -1.0]], 0, NONE),
    "the same word twice on both sides, the first": ([[1.0, 1.0], [1.0, 1.0]], 0, 0),
    "the same word twice on both sides, the second": ([[1.0, 1.0], [1.0, 1.0]], 1, 1),
    "twice in the original only": ([[1.0, 0.2], [1.0, 0.2]], 1, NONE),
    "twice in the paraphrase only": ([[0.2, 1.0, 1.0], [0.9, 0.1, 0.1]], 0, 1),
    "a target without a vector": ([[0.8, 0.1], [0, 0]], 1, NONE),
    "another word without a vector takes nothing": ([[0, 0], [0.8, 0.7]], 1, 0),
    "a word of the paraphrase without a vector": ([[0, 0.7], [0, 0.1]], 0, 1),
    "no word has a vector": ([[0, 0], [0, 0]], 0, NONE),
    "a paraphrase without words": ([[], []], 1, NONE),
    "one word each": ([[0.7]], 0, 0),
    "one word each, too far": ([[0.5]], 0, NONE),
    "one word, many": ([[0.1, 0.7, 0.9, 0.8]], 0, 2),
    "many words, one": ([[0.1], [0.7], [0.6]], 1, 0),
}


@pytest.mark.parametrize(("matrix", "target", "word"), GOLDEN.values(), ids=GOLDEN)
def test_algorithm_by_hand(matrix, target, word):
    result = align_matrices([matrix], [target])
    assert result.word.tolist() == [word]
    if word == NONE:
        assert np.isnan(result.cosine).all()
    else:
        assert result.cosine.tolist() == [np.float32(matrix[target][word])]


@pytest.mark.parametrize("threshold", [-0.3, 0.0, 0.1, 0.45, 0.65, 0.7, 0.82, 1.0])
def test_a_cosine_exactly_at_any_threshold_is_enough(threshold):
    assert aligned([[threshold]], 0, threshold=threshold) == 0
    assert aligned([[threshold - 0.00002]], 0, threshold=threshold) == NONE


def test_sentences_of_all_lengths_in_one_batch():
    cases = list(GOLDEN.values()) * 3  # more than are done at once
    result = align_matrices([matrix for matrix, _, _ in cases], [target for _, target, _ in cases])
    assert result.word.tolist() == [word for _, _, word in cases]


def test_no_pairs():
    word, cosine = align_matrices([], [])
    assert (len(word), len(cosine)) == (0, 0)


def test_pairs_without_words():
    nothing = Sentences(np.zeros((0, 5), np.float32), np.zeros(2, np.int64))
    some = Sentences(np.ones((2, 5), np.float32), np.array([2, 0]))
    for aligner in (align, align_zscore):
        for originals, paraphrases in ((nothing, nothing), (nothing, some), (some, nothing)):
            assert aligner(originals, np.zeros(2, np.int64), paraphrases, THRESHOLD).word.tolist() == [NONE, NONE]


def test_words_that_are_not_allowed_are_passed_over():
    matrix = [[0.1, 0.85, 0.1], [0.9, 0.8, 0.7]]
    assert aligned(matrix, 1, [True, True, True]) == 0
    assert aligned(matrix, 1, [False, True, True]) == 2  # the other word takes the second
    assert aligned(matrix, 1, [False, True, False]) == NONE
    assert aligned(matrix, 1, [False, False, False]) == NONE


def test_a_word_that_is_not_allowed_can_still_be_the_best_of_another_word():
    matrix = [[0.9, 0.8], [0.1, 0.7]]  # the other word has its best in the first, so the second is free
    assert aligned(matrix, 1, [False, True]) == 1


def test_each_pair_has_its_own_part_of_what_is_allowed():
    matrices = [[[0.9, 0.8]], [[]], [[0.7]], [[0.7, 0.8, 0.9]]]
    allowed = [[False, True], [], [True], [True, True, False]]
    assert align_matrices(matrices, [0, 0, 0, 0], allowed).word.tolist() == [1, NONE, 0, 1]


ZSCORE = {
    "unusually near": ([[0.1, 0.2], [0.2, 0.1], [0.1, 0.7], [0.1, 0.2]], 2, 1),
    "near, but no nearer than other words": ([[0.8, 0.1], [0.85, 0.1], [0.8, 0.1], [0.1, 0.1]], 2, NONE),
    "far, but nearer than all other words": ([[-0.3], [-0.2], [0.1], [-0.3]], 2, 0),
    "the lowest score, not the least distance": ([[0.5, 0.0], [0.5, 0.0], [0.0, 0.1], [0.9, 0.7], [0.1, 0.0]], 3, 1),
    "the lowest is taken, so the next": ([[0.9, 0.1], [0.8, 0.5], [0.0, 0.1], [0.0, 0.1], [0.0, 0.1]], 1, 1),
    "exactly at the threshold": ([[0.7], [0.3]], 0, 0),
    "all are equally near": ([[0.3], [0.3], [0.3]], 0, NONE),
    "one word each": ([[0.9]], 0, NONE),
    "no vectors": ([[0, 0], [0, 0]], 0, NONE),
}


@pytest.mark.parametrize(("matrix", "target", "word"), ZSCORE.values(), ids=ZSCORE)
def test_zscore_by_hand(matrix, target, word):
    assert aligned(matrix, target, aligner=align_zscore, threshold=-1.0) == word


def test_zscore_takes_the_nearest_position_of_words_that_look_like_the_target():
    matrix = [[0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.9], [0.1, 0.1, 0.1, 0.2]]
    options = {"aligner": align_zscore, "threshold": -1.0}
    assert aligned(matrix, 1, [False, False, False, False], **options) == 3
    assert aligned(matrix, 1, [True, False, False, True], **options) == 0  # though another word takes it
    assert aligned(matrix, 1, [True, False, True, False], **options) == 0  # as near, and the first
    assert aligned(matrix, 2, [True, False, False, True], **options) == 3


@st.composite
def batches(draw, values=(-0.5, 0.0, 0.25, 0.5, 0.6, 0.7, 1.0)):
    """Some pairs as matrices of cosines with many ties, a target and a mark on some words of each."""
    pairs = []
    for _ in range(draw(st.integers(1, 5))):
        rows, columns = draw(st.integers(1, 6)), draw(st.integers(0, 6))
        cell = st.sampled_from(draw(st.sampled_from([values, values[:4], values[-2:]])))
        matrix = draw(st.lists(st.lists(cell, min_size=columns, max_size=columns), min_size=rows, max_size=rows))
        marks = draw(st.lists(st.booleans(), min_size=columns, max_size=columns))
        pairs.append((matrix, draw(st.integers(0, rows - 1)), marks))
    return pairs


@given(batches())
def test_equals_the_algorithm_step_by_step(pairs):
    matrices, targets, allowed = zip(*pairs, strict=True)
    everything = [[True] * len(marks) for marks in allowed]
    for marks in (allowed, everything):
        wanted = [literal(*pair) for pair in zip(matrices, targets, marks, strict=True)]
        assert align_matrices(matrices, targets, marks).word.tolist() == wanted
    assert align_matrices(matrices, targets).word.tolist() == wanted


@given(batches())
def test_zscore_equals_the_published_rule_step_by_step(pairs):
    matrices, targets, alike = zip(*pairs, strict=True)
    nothing = [[False] * len(marks) for marks in alike]
    options = {"aligner": align_zscore, "threshold": -1.0}
    for marks in (alike, nothing):
        wanted = [literal_zscore(*pair) for pair in zip(matrices, targets, marks, strict=True)]
        assert align_matrices(matrices, targets, marks, **options).word.tolist() == wanted
    assert align_matrices(matrices, targets, **options).word.tolist() == wanted


def random_pairs(seed, most_pairs=40, most_words=12):
    """Sentences of few different words, one of them unknown, with vectors of any dimension."""
    random = np.random.default_rng(seed)
    words = random.normal(0.3, 1, (int(random.integers(2, 12)), int(random.choice([1, 2, 50, 80, 300]))))
    words /= np.linalg.norm(words, axis=1)[:, None]
    words[0] = 0
    words = words.astype(np.float32)
    pairs = []
    for _ in range(int(random.integers(1, most_pairs))):
        original, paraphrase = (random.integers(0, len(words), random.integers(1, most_words)) for _ in range(2))
        pairs.append((words[original], int(random.integers(len(original))), words[paraphrase]))
    return pairs


def random_words(random, count, dimension=80):
    words = random.normal(size=(count, dimension))
    return (words / np.linalg.norm(words, axis=1)[:, None]).astype(np.float32)


def align_pairs(pairs, aligner, threshold):
    originals, targets, paraphrases = zip(*pairs, strict=True)
    left, right = (
        Sentences(np.concatenate(side), np.array([len(words) for words in side])) for side in (originals, paraphrases)
    )
    return aligner(left, np.array(targets), right, threshold)


@given(st.integers(0, 2**32))
def test_vectors_are_compared_by_their_cosine(seed):
    pairs = random_pairs(seed, most_pairs=4)
    wanted = []
    for original, target, paraphrase in pairs:
        matrix = [[math.fsum((a.astype(float) * b).tolist()) for b in paraphrase] for a in original]
        wanted.append(literal(matrix, target, [True] * len(paraphrase)))
    assert align_pairs(pairs, align, THRESHOLD).word.tolist() == wanted


@pytest.mark.parametrize(("aligner", "threshold"), [(align, THRESHOLD), (align_zscore, -1.0)])
@given(seed=st.integers(0, 2**32))
def test_a_pair_gives_the_same_to_the_bit_in_any_company_and_order(aligner, threshold, seed):
    pairs = random_pairs(seed)
    order = np.random.default_rng(seed).permutation(len(pairs))
    together = align_pairs(pairs, aligner, threshold)
    shuffled = align_pairs([pairs[index] for index in order], aligner, threshold)
    alone = [align_pairs([pair], aligner, threshold) for pair in pairs]
    for name in ("word", "cosine"):
        expected = getattr(together, name)
        np.testing.assert_array_equal(getattr(shuffled, name), expected[order])
        np.testing.assert_array_equal(np.concatenate([getattr(result, name) for result in alone]), expected)


@pytest.mark.parametrize("dimension", [50, 80, 300])
def test_the_same_two_words_have_the_same_cosine_wherever_they_stand(dimension):
    """A matrix product may add up differently at its border: it must not decide which of equals is the first."""
    random = np.random.default_rng(dimension)
    for size in range(1, 40):
        once = random_words(random, size, dimension)
        original = once + random_words(random, size, dimension) / 2
        original /= np.linalg.norm(original, axis=1)[:, None]
        pairs = [(original, target, np.concatenate([once, once])) for target in range(size)]
        assert align_pairs(pairs, align, THRESHOLD).word.tolist() == list(range(size))


@pytest.mark.parametrize("times", [1, 3, 7])
def test_zscore_of_the_nearer_of_two_words_is_exactly_at_the_threshold(times):
    random = np.random.default_rng(times)
    pairs = [(np.repeat(random_words(random, 2), times, 0), 0, random_words(random, 1)) for _ in range(200)]
    nearer = [bool(original[0] @ paraphrase[0] > original[-1] @ paraphrase[0]) for original, _, paraphrase in pairs]
    assert (align_pairs(pairs, align_zscore, -1.0).word == 0).tolist() == nearer


def test_zscore_finds_nothing_unusual_in_one_word_repeated():
    random = np.random.default_rng(2)
    pairs = [(np.repeat(random_words(random, 1), count, 0), 0, random_words(random, 3)) for count in range(1, 200)]
    assert set(align_pairs(pairs, align_zscore, -1.0).word.tolist()) == {NONE}


def reasons(matrix, target, marks, judge, threshold):
    originals, paraphrases = vectors_of([matrix])
    (judged,) = judge(originals, np.array([target]), paraphrases, threshold, np.array(marks, bool))
    return [Passed(reason).name for reason in judged.reasons[0].tolist()]


def test_every_word_but_the_aligned_one_has_its_reason():
    matrix = [[0.9, 0.1, 0.1, 0.1, 0.1], [0.8, 0.5, 0.75, 0.7, 0.65]]
    wanted = ["TAKEN", "TOO_FAR", "OTHER_KIND", "NOT", "LESS_SIMILAR"]
    assert reasons(matrix, 1, [True, True, False, True, True], judge_by_cosine, THRESHOLD) == wanted


def test_the_first_reason_is_named():
    matrix = [[0.5, 0.1], [0.4, 0.1]]  # the first word is taken too, and of another kind
    assert reasons(matrix, 1, [False, False], judge_by_cosine, THRESHOLD) == ["TOO_FAR", "TOO_FAR"]
    assert reasons(matrix, 1, [False, False], judge_by_cosine, 0.2) == ["OTHER_KIND", "TOO_FAR"]


def test_by_the_published_rule_letters_are_a_reason_of_their_own():
    matrix = [[0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.9], [0.1, 0.1, 0.1, 0.2]]
    letters = ["NOT", "ANOTHER_LOOKS_ALIKE", "STANDS_FARTHER", "STANDS_FARTHER"]
    assert reasons(matrix, 1, [True, False, True, True], judge_by_score, -1.0) == letters
    assert reasons(matrix, 1, [False] * 4, judge_by_score, -1.0) == ["TOO_FAR", "TOO_FAR", "TOO_FAR", "NOT"]
    taken = [[0.9, 0.1], [0.8, 0.5], [0.0, 0.1], [0.0, 0.1], [0.0, 0.1]]
    assert reasons(taken, 1, [False] * 2, judge_by_score, -0.5) == ["TAKEN", "NOT"]


@pytest.mark.parametrize(("judge", "threshold"), [(judge_by_cosine, THRESHOLD), (judge_by_score, -1.0)])
@given(pairs=batches())
def test_exactly_the_aligned_word_has_no_reason(judge, threshold, pairs):
    matrices, targets, marks = zip(*pairs, strict=True)
    originals, paraphrases = vectors_of(matrices)
    flat = np.array([mark for some in marks for mark in some], bool)
    compared = (originals, np.array(targets, np.int64), paraphrases, threshold, flat)
    chosen = chosen_words(judge(*compared)).word.tolist()
    without = [np.flatnonzero(row == Passed.NOT).tolist() for some in judge(*compared) for row in some.reasons]
    assert without == [[word] if word != NONE else [] for word in chosen]
