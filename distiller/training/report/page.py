"""The HTML page of a training: its progress, losses, separation of words, speed and scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpusgen.models.identity import short_name, version_text
from corpusgen.pages.charts import Curve, Scale, curves, duration, legend, rate_text, steps
from corpusgen.pages.html import Fact, Figure, FigureGroup, Header, last_step, render_page
from distiller.evaluation.page import SCORES_STYLE
from distiller.evaluation.report import from_markdown
from distiller.training.report.facts import RunFacts
from distiller.words.objective import Contrast, Reconstruct, objective_of

_FOLDER = "distiller/training/report"
_LINKS = {
    "loss": "Loss",
    "terms": "Terms",
    "separation": "Separation",
    "speed": "Speed",
    "evaluation": "Evaluation",
}
_MEMBERS = ("original", "positive", "negative")
_LETTERS_OF_A_HASH = 12
_NONE = np.empty(0)


@dataclass(frozen=True)
class _Explained:
    """What the page says about the figures of an objective: its terms, and which rows it counts as ordered or not."""

    terms: str = ""
    counted: str = ""
    why: str = ""


_EXPLAINED = {
    Reconstruct.name: _Explained(
        "Mean squared errors of words reconstructed from a meaning and a context, all on the same scale.",
        "another word as positive",
        "If the positive is the original's own word, it is nearer with almost any vectors, so such rows are not "
        "counted as ordered or unordered.",
    ),
    Contrast.name: _Explained(
        "How well a word finds its partner among the words of the batch (InfoNCE): the positive by meaning vectors, "
        "another word of its sentence by context vectors. Those of held-out rows are estimates. Preservation: how far "
        "the cosines of different words are from the frozen model's. Sentence: both of these for "
        "words whose mean is the vector of a text. Reconstruction, where it is a term: mean squared errors of words "
        "reconstructed from a meaning and a context.",
        "a negative",
        "The negative is the same word in another document, where it may still mean the same.",
    ),
}


def to_html(facts: RunFacts, reload_seconds: int | None = None) -> str:
    """Render the whole page. With `reload_seconds` it reloads itself, for following a training."""
    sections = dict(_sections(facts)) if facts.steps else {}
    return render_page(
        f"{_FOLDER}/page.html.j2",
        f"{last_step(facts.url)}: training",
        styles=[SCORES_STYLE, f"{_FOLDER}/page.css"],
        reload_seconds=reload_seconds,
        header=_header(facts),
        outcome=_outcome(facts) if facts.progress else None,
        links={name: link for name, link in _LINKS.items() if name in sections},
        sections=sections,
    )


# ---------------------------------------------------------------------- header


def _header(facts: RunFacts) -> Header:
    begun, latest = facts.dates
    return Header(
        kind="training",
        url=facts.url,
        state="trained" if facts.trained else "not finished",
        is_complete=facts.trained,
        dates={"begun": begun, "finished" if facts.trained else "last checkpoint": latest, "this page": facts.made_at},
        figures=_figures(facts),
        facts=list(_about(facts)),
        settings=facts.stored,
    )


@dataclass(frozen=True)
class Outcome:
    """The progress of a training, or how it ended."""

    share: float
    text: str


def _outcome(facts: RunFacts) -> Outcome:
    done = 1.0 if facts.trained else facts.step / facts.progress["last_step"]
    return Outcome(done, " ".join(_told(facts)))


def _told(facts: RunFacts) -> Iterator[str]:
    """Yield sentences on its progress or its end, and on the best weights."""
    progress, best = facts.progress, facts.best
    waited, patience = progress["waited"], facts.settings.patience
    if not progress["finished"]:
        yield f"Step {facts.step:,} of at most {progress['last_step']:,}."
    elif waited >= patience:
        yield f"Stopped early after step {facts.step:,}: {patience} validations without a better loss."
    else:
        yield f"Trained to the end: {facts.settings.max_epochs:,} epochs, {facts.step:,} steps."
    if best:
        kept = "The model is from" if facts.trained else "Best so far:"
        yield f"{kept} step {best['step']:,.0f}, epoch {best['epoch']:.1f}."
    if best and not progress["finished"] and waited:
        yield f"Validations since then: {waited}; training stops after {patience} without a better loss."


def _figures(facts: RunFacts) -> dict[str, str]:
    values: dict[str, str] = {}
    if facts.progress:
        values["steps"] = f"{facts.step:,}"
        values["epochs"] = f"{facts.step / facts.progress['steps_per_epoch']:.1f}"
    if best := facts.best:
        values["best held-out loss"] = f"{best['loss']:.4f}"
        shares = {"rows ordered": "ordered", "by the frozen model": "ordered_frozen"}
        values |= {label: f"{best[name]:.1%}" for label, name in shares.items() if np.isfinite(best.get(name, np.nan))}
    if facts.seconds:
        values["rows/s"] = rate_text(facts.mean_rate)
        values["of training"] = duration(facts.seconds)
    return values


def _about(facts: RunFacts) -> Iterator[Fact]:
    settings, progress = facts.settings, facts.progress
    backbone = facts.made_of.get("backbone", {})
    yield Fact("frozen model", short_name(settings.backbone.model), version_text(backbone))
    if layers := facts.made_of.get("layers"):
        kind = "standardised" if settings.standardise else ""
        yield Fact("its layers", f"{layers[0]} to {layers[-1]}", kind)
    yield Fact("corpus", last_step(settings.corpus), settings.corpus)
    for table, rows in facts.tables.items():
        unfinished = "" if rows["complete"] else "; its build had not finished"
        yield Fact(table, f"{rows['rows']:,}", f"hash {rows['parts'][:_LETTERS_OF_A_HASH]}…{unfinished}")
    if progress:
        left_out = f", {progress['left_out']:,} left out" if progress.get("left_out") else ""
        yield Fact("trained on", f"{progress['trained_on']:,} rows", f"{progress['held_out']:,} held out{left_out}")
    kinds = ("across languages" if settings.crosslingual else "", "" if settings.negatives else "without negatives")
    terms = f"{len(objective_of(settings).term_names)} terms"
    yield Fact("objective", settings.objective, ", ".join(filter(None, (terms, *kinds))))
    workers = f"{progress['workers']:,} worker{'s' * (progress['workers'] > 1)}, " if progress else ""
    yield Fact("batch", f"{settings.batch_size:,} rows", f"{workers}features {settings.features}")
    yield Fact("learning rate", f"{settings.learning_rate:g}", f"after {settings.warmup_steps:,} steps of warm-up")
    yield Fact("seed", str(settings.seed))


# -------------------------------------------------------------------- sections


@dataclass(frozen=True)
class ReportSection:
    """A note, if there is something to explain, and figures or groups of them."""

    note: str
    figures: Sequence[Figure | FigureGroup]


def _sections(facts: RunFacts) -> Iterator[tuple[str, Any]]:
    """Yield the id and content of each section that is not empty."""
    explained = _EXPLAINED.get(facts.settings.objective, _Explained())
    yield "loss", _loss_figure(facts)
    yield "terms", ReportSection(explained.terms, list(_terms_groups(facts)))
    if facts.validations:
        yield "separation", ReportSection(explained.why, list(_separation_figures(facts, explained.counted)))
    resumed = "A dashed line marks where the training was stopped and later resumed."
    yield "speed", ReportSection(resumed if len(facts.rates) > 1 else "", list(_speed_figures(facts)))
    if facts.trained:
        yield "evaluation", list(from_markdown(facts.evaluation))


def _loss_figure(facts: RunFacts) -> Figure:
    drawn, best = _losses(facts, "loss"), facts.best
    bound = (f"best: step {best['step']:,.0f}", best["step"]) if best else None
    return _figure("", "", drawn, _loss_scale(drawn), 280, bound=bound)


def _terms_groups(facts: RunFacts) -> Iterator[FigureGroup]:
    """Yield groups of similar terms of the loss, with one picture for each term."""
    objective = objective_of(facts.settings)
    scale = _loss_scale([curve for name in objective.term_names for curve in _losses(facts, name)])
    terms = objective.terms if isinstance(objective, Reconstruct) else ()
    own = [term for term in terms if term.meaning == term.context == term.target]
    others = [term for term in terms if term not in own]
    for title, kind, some in (
        ("From a word's own meaning and context", "", own),
        ("From the meaning of one word and the context of another", "two", others),
    ):
        figures = []
        for term in some:
            meaning, context, target = (_MEMBERS[member] for member in (term.meaning, term.context, term.target))
            what = "" if term in own else f"from the meaning of the {meaning} and the context of the {context}"
            figures.append(_figure(target, what, _losses(facts, term.name), scale, 140))
        if figures:
            yield FigureGroup(title, figures, kind=kind)
    known = {term.name for term in terms}
    more = [name for name in objective.term_names if name not in known]
    if more:
        figures = [_figure(name.replace("_", " "), "", _losses(facts, name), scale, 140) for name in more]
        yield FigureGroup("Other terms" if known else "", figures, kind="two")


def _separation_figures(facts: RunFacts, counted: str) -> Iterator[Figure]:
    found = facts.validations
    ordered = [Curve("meaning vectors", "ordered", found["step"], found["ordered"], has_dots=True)]
    if "ordered_frozen" in found:
        ordered.append(Curve("frozen model", "frozen", found["step"], found["ordered_frozen"]))
    names = {"positive": "positive", "negative": "negative", "unrelated": "an unrelated word"}
    cosines = [Curve(name, kind, found["step"], found[f"cosine_{kind}"], True) for kind, name in names.items()]
    of_those = f", of those with {counted}" if counted and "differing" in found else ""
    what = f"share of rows whose original is nearer to the positive than to the negative{of_those}"
    yield _figure("Ordered", what, ordered, _linear_scale(ordered, 0.9, 1.0), 190, _percent)
    yield _figure("Cosines", "means, of the original and …", cosines, _linear_scale(cosines, 0.0, 1.0), 190)


def _speed_figures(facts: RunFacts) -> Iterator[Figure]:
    if facts.rates:
        edges, values = zip(*facts.rates, strict=True)
        picture = steps("Rows per second over working time", edges, values)
        yield Figure("Rows per second", "over working time, including validations and checkpoints", picture)
    last = int(facts.progress.get("last_step", 0)) or facts.step or 1
    falling = np.linspace(0, facts.step, 50 if facts.settings.decay == "cosine" else 2).round()
    at = np.unique(np.clip([1.0, facts.settings.warmup_steps, *falling], 0, facts.step))
    rate = np.array([facts.settings.learning_rate_at(int(step), last) for step in at])
    drawn = [Curve("learning rate", "rate", at, rate)]
    yield _figure("Learning rate", "over the steps", drawn, Scale.linear(rate, most_ticks=3), 70)


# --------------------------------------------------------------------- figures


def _digits(value: float) -> str:
    return f"{value:.3g}"


def _percent(value: float) -> str:
    return f"{100 * value:.4g}%"


def _figure(
    title: str,
    what: str,
    drawn: Sequence[Curve],
    scale: Scale,
    height: int,
    say: Callable[[float], str] = _digits,
    bound: tuple[str, float] | None = None,
) -> Figure:
    """Draw curves with a caption, and an alternative text that says where each begins and ends."""
    known = [(curve, curve.y[np.isfinite(curve.y)]) for curve in drawn]
    ends = [f"{curve.name} from {say(values[0])} to {say(values[-1])}" for curve, values in known if len(values)]
    picture = curves(f"{title or 'Loss'} {what}: {', '.join(ends)}", drawn, scale, height, bound, say)
    return Figure(title, what, picture, legend=legend(drawn, say) if len(drawn) > 1 else None, kind="curves")


def _losses(facts: RunFacts, name: str) -> list[Curve]:
    return [
        Curve("training", "training", facts.steps["step"], facts.steps[name]),
        Curve("held out", "held-out", facts.validations.get("step", _NONE), facts.validations.get(name, _NONE), True),
    ]


def _loss_scale(drawn: Sequence[Curve]) -> Scale:
    return Scale.log(np.concatenate([curve.y for curve in drawn]))


def _linear_scale(drawn: Sequence[Curve], *shown: float) -> Scale:
    return Scale.linear(np.concatenate([curve.y for curve in drawn] + [np.array(shown)]))
