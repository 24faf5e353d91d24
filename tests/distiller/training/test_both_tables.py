"""Triples and pairs in one training: losses as plain loops give them, workers that act as one, exact restarts."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.nn.functional import cosine_similarity

from corpusgen.errors import ConfigError
from distiller.training.data import FeatureChunk, JoinedSources, MappedFeatures
from distiller.training.loop import Training
from distiller.training.report.facts import RunFacts
from distiller.training.report.page import to_html
from distiller.words.model import TrainingPosition
from distiller.words.objective import objective_of
from distiller.words.row_facts import ROW_FACTS, BatchFacts
from distiller.words.saved import SavedModel
from tests.distiller.support import settings
from tests.distiller.training.report.support import start, train
from tests.testing.pages import Page

LAYERS, DIMENSION = 4, 16
SIZES = {"triples": 120, "pairs": 200}
TRIPLES, PAIRS = SIZES.values()
NO_SAME_WORD, ALL, NO_SAME_CONTEXT, NEITHER = 0b1011, 0b1111, 0b0111, 0b0011


def made(folder, rows, seed, present):
    """Words with a meaning and a context, of which the other members of a row share one."""
    random = np.random.default_rng(seed)
    senses, contexts = random.normal(size=(50, DIMENSION // 2)), 2 * random.normal(size=(2, rows, DIMENSION // 2))
    sense, other = random.integers(50, size=(2, rows))
    halves = ((sense, 0), (sense, 1), (sense ^ 1, 1), (other, 0))
    words = np.stack([np.hstack([senses[meaning], contexts[context]]) for meaning, context in halves], 1)
    states = words[:, :, None] + 0.5 * random.normal(size=(rows, 4, LAYERS, DIMENSION))
    facts = np.zeros(rows, ROW_FACTS)
    facts["word"], facts["present"] = sense // 2, random.choice(present, rows)
    chunk = FeatureChunk([f"{seed}-{n}" for n in range(rows)], states.astype(np.float16), facts)
    return MappedFeatures.open(folder, f"made {seed}", lambda: [chunk])


def both(folder):
    return JoinedSources(
        [made(folder, TRIPLES, 0, [NO_SAME_WORD]), made(folder, PAIRS, 1, [ALL, NO_SAME_WORD, NO_SAME_CONTEXT])]
    )


def chosen(**changed):
    contrast = {"reconstruction": 0.3, "strength": 0.5}
    values = {"objective": "contrast", "contrast": contrast, "max_epochs": 3, "learning_rate": 1e-2, "batch_size": 33}
    return settings(**{**values, **changed})


# --- losses ---


def loop_of_contrast(vectors, partner, hard, rows, keys, temperature, weight):
    """The mean loss of telling the partner; `rows` are those that have one, `weight` is that of each hard negative.

    Rows with one of their `keys` in common are not told apart.
    """
    losses = []
    for anchors, partners in ((vectors[0], vectors[partner]), (vectors[partner], vectors[0])):
        for row in rows:
            choices = {
                other: math.exp(cosine_similarity(anchors[row], partners[other], dim=0) / temperature)
                for other in rows
                if other == row or not set(keys[other]) & set(keys[row])
            }
            extra = weight[row] * math.exp(cosine_similarity(anchors[row], vectors[hard][row], dim=0) / temperature)
            losses.append(-math.log(choices[row] / (sum(choices.values()) + extra)))
    return np.mean(losses)


def loop_of_preservation(meaning, own, word):
    """The mean square of how the cosines of occurrences of different words differ from the frozen ones."""
    found = []
    for (a, one), (b, other) in itertools.product(itertools.product((0, 1), range(len(word))), repeat=2):
        if word[one] != word[other]:
            cosines = [cosine_similarity(vectors[a][one], vectors[b][other], dim=0) for vectors in (meaning, own)]
            found.append((cosines[0] - cosines[1]).item() ** 2)
    return np.mean(found)


def loop_of_reconstruction(meaning, context, own, present):
    """The mean over the rows of the paper's seven terms, without those of a member that the row lacks."""
    total = 0.0
    for row, bits in enumerate(present):
        h, p, n = 0, 1, 3
        terms = [(h, h, h), (p, p, p), (h, p, p), (p, h, h)]
        terms += [(n, n, n), (n, h, n), (h, n, h)] if bits & 0b1000 else []
        for m, c, target in terms:
            total += ((meaning[m][row] + context[c][row]) / 2 - own[target][row]).square().mean().item()
    return total / len(present)


def test_the_losses_of_a_mixed_batch_are_those_of_plain_loops():
    rows = 12
    states = torch.randn(4, rows, LAYERS, DIMENSION, generator=torch.Generator().manual_seed(0))
    word = [0, 1, 2, 3, 1, 4, 5, 2, 6, 7, 8, 9]
    present = [*([NO_SAME_WORD] * 5), ALL, ALL, NO_SAME_CONTEXT, ALL, NEITHER, ALL, ALL]
    bits = torch.tensor(present, dtype=torch.uint8)
    sentence = [0, 1, 2, 3, 4, 5, 5, 7, 8, 9, 8, 11]
    facts = BatchFacts(torch.tensor(word), torch.zeros(rows, dtype=torch.bool), bits, torch.tensor(sentence))
    shares = {"same_word_share": 0.08, "context_same_word_share": 0.04}
    terms = {"reconstruction": 0.3, "preservation": 2.0, "similar_share": 0.0, "sentence_temperature": 0.5}
    objective = objective_of(chosen(batch_size=rows, contrast={**terms, **shares}))
    model = objective.new_model(LAYERS, DIMENSION).train()
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.1)
    losses = objective.losses(model, model, states, facts, TrainingPosition(0, 0, 0, rows), 1 / rows)
    meaning, context, in_sentence, own = (vectors.detach().double() for vectors in (*model(states), model.own(states)))
    has_word, has_context = ([bool(one & bit) for one in present] for bit in (0b0100, 0b1000))
    words = [(f"word {one}",) for one in word]
    contexts = [(*one, f"sentence {other}") for one, other in zip(words, sentence, strict=True)]
    expected = [
        loop_of_contrast(meaning, 1, 2, range(rows), words, 0.3, 0.08 * (rows - 1) * np.array(has_word)),
        loop_of_contrast(context, 3, 1, np.flatnonzero(has_context), contexts, 0.1, np.full(rows, 0.04 * (rows - 1))),
        2.0 * loop_of_preservation(meaning, own, word),
        loop_of_contrast(in_sentence, 1, 2, range(rows), words, 0.5, np.zeros(rows))
        + 2.0 * loop_of_preservation(in_sentence, own, word),
        0.3 * loop_of_reconstruction(meaning, context, own, present),
    ]
    assert objective.term_names == ("meaning", "context", "preservation", "sentence", "reconstruction")
    assert losses.tolist() == pytest.approx(expected, rel=1e-4)


def test_terms_without_a_weight_are_left_out():
    assert objective_of(chosen(contrast={})).term_names == ("meaning", "context", "preservation", "sentence")
    neither = {"preservation": 0, "sentence_temperature": None}
    assert objective_of(chosen(contrast=neither)).term_names == ("meaning", "context")


def test_reconstruction_makes_meaning_and_context_add_up_at_any_strength(tmp_path):
    """The frozen vector is half of the sum: before training exactly, with the contrast alone no longer."""
    features = both(tmp_path)
    states = features.batch(np.arange(len(features)))

    def missed(weight):
        training = Training(chosen(contrast={"reconstruction": weight, "strength": 0.5}), features)
        own = training.model.own(states)
        for _ in training.run():
            pass
        meaning, context, _ = training.model.eval()(states)
        return ((meaning + context) / 2 - own).square().mean().item()

    assert missed(10.0) < missed(0.0) / 5


# --- the training ---


def trained(rank, workers, folder):
    if workers > 1:
        dist.init_process_group("gloo", f"file://{folder}/group", rank=rank, world_size=workers)
    torch.set_num_threads(1)
    training = Training(chosen(), both(folder / f"features{rank}"), rank, workers)
    steps = [(dict(terms), vars(found) if found else None) for _, terms, found in training.run()]
    torch.save((steps, training.model.state_dict()), folder / f"{workers}-{rank}.pt")
    if workers > 1:
        dist.destroy_process_group()


def test_workers_together_have_the_losses_and_the_model_of_one(tmp_path):
    """Batches of 33 rows, so that the parts of two workers differ in size, and a smaller last one."""
    trained(0, 1, tmp_path)
    processes.spawn(trained, (2, tmp_path), nprocs=2)
    one, first, second = (torch.load(tmp_path / name) for name in ("1-0.pt", "2-0.pt", "2-1.pt"))
    assert first[0] == second[0]
    for (alone, judged), (together, also_judged) in zip(one[0], first[0], strict=True):
        assert together == pytest.approx(alone, rel=1e-4)
        if judged:
            assert also_judged.pop("terms") == pytest.approx(judged.pop("terms"), rel=1e-4)
            assert also_judged == pytest.approx(judged, rel=1e-4)
    for name, weights in one[1].items():
        assert torch.allclose(weights, first[1][name], atol=1e-4), name


def test_a_restart_goes_on_bit_for_bit(tmp_path):
    features = both(tmp_path)
    whole, begun, resumed = (Training(chosen(), features) for _ in range(3))
    expected = [(dict(terms), found) for _, terms, found in whole.run()]
    steps = begun.run()
    got = [(dict(terms), found) for _, (_, terms, found) in zip(range(10), steps, strict=False)]
    resumed.load_state(begun.state())
    got += [(dict(terms), found) for _, terms, found in resumed.run()]
    assert got == expected


def test_rows_of_both_tables_are_trained_on_and_held_out(tmp_path):
    training = Training(chosen(), both(tmp_path))
    for rows in (training._rows, training._held_out):
        assert 0 < (rows < TRIPLES).sum() < len(rows)
    *_, (_, _, found) = training.run()
    assert found.terms.keys() == {"meaning", "context", "preservation", "sentence", "reconstruction"}
    assert found.loss == pytest.approx(sum(found.terms.values()))


def test_a_model_names_its_tables(tmp_path):
    training = Training(chosen(max_epochs=1), both(tmp_path))
    *_, (_, _, found) = training.run()

    def card(table):
        return SavedModel.of(training.model, chosen(table=table), range(LAYERS), {}, vars(found)).card

    assert "Trained by wicdistil on triples and pairs made without human labels" in card("triples+pairs")
    assert "other documents" in card("triples+pairs")
    assert "other documents" not in card("triples")


def test_a_report_names_the_tables_and_shows_every_term(tmp_path):
    rows = {name: {"parts": name * 10, "rows": count, "complete": True} for name, count in SIZES.items()}
    made_of = {"layers": list(range(LAYERS)), "tables": rows}
    options = {"objective": "contrast", "contrast": {"reconstruction": 0.3}, "table": "triples+pairs"}
    run = train(str(tmp_path / "run"), both(tmp_path), made_of=made_of, **options)
    facts = RunFacts.read(run)
    page = Page(to_html(facts))
    trained_on = f"{facts.progress['trained_on']} rows"
    for text in ("120", "hash triplestripl…", "200", "hash pairspairspa…", trained_on, "5 terms", "reconstruction"):
        assert text in page.text, text
    assert "triples are" not in page.text
    resumed, _ = start(run.url, made_of=made_of, **options)
    assert resumed.last()
    rows["pairs"] = {**rows["pairs"], "parts": "others"}
    with pytest.raises(ConfigError, match=r"different settings or data:\n  made of: .*'pairs'"):
        start(run.url, made_of=made_of, **options)


def test_sources_of_different_layers_are_not_joined(tmp_path):
    pairs = made(tmp_path, 5, 1, [ALL])
    fewer = MappedFeatures(pairs._states[:, :, 1:], pairs.ids)
    with pytest.raises(ValueError, match="different layers, dimensions or types"):
        JoinedSources([pairs, fewer])
