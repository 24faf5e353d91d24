"""Runs to report on: trained for real, in this process, on states that were made up."""

from distiller.evaluation.report import Evaluation, to_markdown
from distiller.evaluation.results import Score, TaskResult
from distiller.training.checkpoints import unpacked
from distiller.training.loop import Training
from distiller.training.run_folder import History, RunFolder
from distiller.words.saved import IN_A_RUN, SavedModel, put_in_card, write_saved
from tests.distiller.support import LAYERS, settings

MADE_OF = {
    "backbone": {"id": "minilm", "sha256": "ab" * 32, "dtype": "auto"},
    "layers": list(range(LAYERS)),
    "triples": {"parts": "0123456789abcdef0123", "rows": 400, "complete": True},
}
SCORES = [
    TaskResult(
        task="WiC",
        metric="accuracy",
        items=638,
        scores={
            "baseline": Score(0.65, 0.64, 0.66),
            "meaning": Score(0.684, 0.67, 0.69),
            "context": Score(0.5, 0.4, 0.6),
        },
        paper={"meaning": 0.684},
    ),
    TaskResult("SCWS", "Spearman", 2003, {"baseline": Score(0.7, 0.6, 0.8), "meaning": Score(0.71, 0.6, 0.8)}),
]


def start(output, made_of=MADE_OF, **changed):
    """A run that has only its settings."""
    chosen = settings(output=output, **changed)
    run = RunFolder(output)
    run.ensure_same(chosen, {"made of": made_of})
    return run, chosen


def train(output, features, until=None, **changed):
    """Train, or go on with it, as a worker does; until a step, as if it were killed after its checkpoint."""
    run, chosen = start(output, **changed)
    training, history = Training(chosen, features), History()
    if last := run.last():
        state = unpacked(last)
        history = History(**state.pop("history"))
        training.load_state(state)
    history.begin(training.progress.step)
    for step, terms, validation in training.run():
        history.add(step, terms, validation, every=2)
        if validation or step == until:
            run.save(training, history)
        if step == until:
            break
    return run


def finish(run, features, **changed):
    """What follows the last step: the model."""
    _, chosen = start(run.url, **changed)
    state = unpacked(run.last())
    model = Training(chosen, features).model
    model.load_state_dict(state["best"])
    best = History(**state["history"]).validation_of(state["progress"]["best_step"])
    saved = SavedModel.of(model, chosen, MADE_OF["layers"], MADE_OF["backbone"], best)
    write_saved(f"{run.url}/{IN_A_RUN}", saved)


def evaluated(run):
    """Scores in the model's card, as `distiller evaluate --card` puts them there."""
    put_in_card(run.url, to_markdown(Evaluation("m", "b", SCORES, 1.0)))
