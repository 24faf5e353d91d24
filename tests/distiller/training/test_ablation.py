"""What negatives are for, on made-up states of which half is what a word means and half its context."""

import torch
from torch.nn.functional import cosine_similarity, normalize

from distiller.words.losses import NEGATIVE, ORIGINAL, POSITIVE, term_losses, terms_of
from distiller.words.model import WordModel

DIMENSION = 8


def made_states(rows, seed):
    """(3, rows, 1, d). The positive is the word said a little differently; the negative another word in its place."""
    generator = torch.Generator().manual_seed(seed)
    meaning, other, context = torch.randn(3, rows, DIMENSION // 2, generator=generator)
    original, negative = torch.cat([meaning, context], 1), torch.cat([other, context], 1)
    positive = original + torch.randn(original.shape, generator=generator)
    # The states of a frozen model have much in common that says nothing of a word.
    common = torch.randn(DIMENSION, generator=torch.Generator().manual_seed(5))
    return torch.stack([original, positive, negative])[:, :, None] + common


def trained(negatives, steps=200):
    model = WordModel(DIMENSION, heads=2, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for step in range(steps):
        states = made_states(128, seed=step)
        optimizer.zero_grad()
        term_losses(model(states), model.rebuilt(states), terms_of(negatives=negatives)).sum().backward()
        optimizer.step()
    return model


@torch.no_grad()
def mean_cosines(model):
    """Of meaning vectors: of unrelated words, of original and positive, of original and negative."""
    meaning = model(made_states(256, seed=1000)).meaning
    unit = normalize(meaning[ORIGINAL], dim=1)
    unrelated = (unit @ unit.T).fill_diagonal_(0).sum() / (256 * 255)
    pairs = [cosine_similarity(meaning[ORIGINAL], meaning[other]).mean() for other in (POSITIVE, NEGATIVE)]
    return [float(cosine) for cosine in (unrelated, *pairs)]


def test_meaning_vectors_collapse_without_negatives_and_not_with_them():
    """Without them one meaning for all words costs nothing: the context vectors hold everything."""
    unrelated, positive, negative = mean_cosines(trained(negatives=True))
    assert unrelated < 0.7
    assert positive > negative + 0.15
    unrelated, positive, negative = mean_cosines(trained(negatives=False))
    assert unrelated > 0.8
    assert positive < negative + 0.05
