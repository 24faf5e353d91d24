"""The page of a training: where it stands, its losses, how it tells words apart, how fast it went, its scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

import numpy as np

from corpusgen.models.identity import short_name, version_text
from corpusgen.pages.charts import Curve, Scale, curves, duration, legend, rate_text, steps
from corpusgen.pages.html import Fact, about, figures, heading, last_step, links, measure, page
from distiller.evaluation.page import SCORES_STYLE, html_table
from distiller.evaluation.report import from_markdown
from distiller.settings import TrainSettings
from distiller.training.report.facts import RunFacts
from distiller.words.losses import Term, terms_of

_LINKS = {
    "loss": "Loss",
    "terms": "Terms",
    "separation": "Separation",
    "speed": "Speed",
    "evaluation": "Evaluation",
}
_STYLE = """
.outcome { margin: 1.75rem 0 0 } .outcome .measure { margin-bottom: .5rem }
.outcome p { margin: 0; max-width: none; font-size: .9375rem }
.panels.two { grid-template-columns: repeat(auto-fill, minmax(min(24rem, 100%), 1fr)) }
"""
_MEMBERS = ("original", "positive", "negative")
_LETTERS_OF_A_HASH = 12
_NONE = np.empty(0)


def to_html(facts: RunFacts, reload_seconds: int | None = None) -> str:
    """The whole page. With `reload_seconds` it loads itself again and again, for whoever watches a training."""
    sections = "\n".join(_sections(facts))
    header = "\n".join(_header(facts, reload_seconds))
    body = f"<header>{header}</header>\n{links(_LINKS, sections)}\n<main>\n{sections}\n</main>"
    return page(escape(f"{last_step(facts.url)}: training"), body, SCORES_STYLE + _STYLE, "", reload_seconds)


# ---------------------------------------------------------------------- header


def _header(facts: RunFacts, reload_seconds: int | None) -> Iterator[str]:
    begun, latest = facts.dates
    dates = {"begun": begun, "finished" if facts.trained else "last checkpoint": latest, "this page": facts.made_at}
    state = "trained" if facts.trained else "not finished"
    yield from heading("training", facts.url, state, facts.trained, dates, reload_seconds)
    if facts.progress:
        done = 1.0 if facts.trained else facts.step / facts.progress["last_step"]
        yield f'<div class="outcome">{measure(done)}<p>{" ".join(_outcome(facts))}</p></div>'
    yield figures(_figures(facts))
    yield from about(_about(facts), facts.stored)


def _outcome(facts: RunFacts) -> Iterator[str]:
    """How far it is or how it ended, and which weights are the best."""
    progress, best = facts.progress, facts.best
    waited, patience = progress["waited"], facts.settings.patience
    if not progress["finished"]:
        yield f"Step {facts.step:,} of at most {progress['last_step']:,}."
    elif waited >= patience:
        yield f"Stopped early after step {facts.step:,}: {patience} validations without a better loss."
    else:
        yield f"Trained to the end: {facts.settings.max_epochs:,} epochs, {facts.step:,} steps."
    if best:
        kept = "The model is that of" if facts.trained else "Best so far:"
        yield f"{kept} step {best['step']:,.0f}, epoch {best['epoch']:.1f}."
    if best and not progress["finished"] and waited:
        yield f"Validations since then: {waited}; after {patience} without a better loss it stops."


def _figures(facts: RunFacts) -> dict[str, str]:
    values: dict[str, str] = {}
    if facts.progress:
        values["steps"] = f"{facts.step:,}"
        values["epochs"] = f"{facts.step / facts.progress['steps_per_epoch']:.1f}"
    if best := facts.best:
        values["best held-out loss"] = f"{best['loss']:.4f}"
        values["triples ordered"] = f"{best['ordered']:.1%}"
    if facts.seconds:
        values["triples/s"] = rate_text(facts.mean_rate)
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
    if triples := facts.made_of.get("triples"):
        unfinished = "" if triples["complete"] else "; its build was not finished"
        yield Fact("triples", f"{triples['rows']:,}", f"hash {triples['parts'][:_LETTERS_OF_A_HASH]}…{unfinished}")
    if progress:
        yield Fact("trained on", f"{progress['trained_on']:,} triples", f"{progress['held_out']:,} held out")
    kinds = ("across languages" if settings.crosslingual else "", "" if settings.negatives else "without negatives")
    yield Fact("loss", f"{len(_terms(settings))} terms", ", ".join(filter(None, kinds)))
    workers = f"{progress['workers']:,} worker{'s' * (progress['workers'] > 1)}, " if progress else ""
    yield Fact("batch", f"{settings.batch_size:,} triples", f"{workers}features {settings.features}")
    yield Fact("learning rate", f"{settings.learning_rate:g}", f"after {settings.warmup_steps:,} steps of warm-up")
    yield Fact("seed", str(settings.seed))


# -------------------------------------------------------------------- sections


def _sections(facts: RunFacts) -> Iterator[str]:
    if not facts.steps:
        yield '<p class="absent">Nothing to show yet: no checkpoint was written.</p>'
        return
    yield from _loss_section(facts)
    yield from _terms_section(facts)
    if facts.validations:
        yield from _separation_section(facts)
    yield from _speed_section(facts)
    if facts.trained:
        yield from _evaluation_section(facts)


def _loss_section(facts: RunFacts) -> Iterator[str]:
    yield '<h2 id="loss">Loss</h2><p class="note">The sum of all terms over the steps. That of training is a mean of'
    yield " some steps, and dropout is on in it; held-out triples are never trained on.</p>"
    drawn, best = _losses(facts, "loss"), facts.best
    bound = (f"best: step {best['step']:,.0f}", best["step"]) if best else None
    yield _figure("", "", drawn, _loss_scale(drawn), 280, bound=bound)


def _terms_section(facts: RunFacts) -> Iterator[str]:
    yield '<h2 id="terms">Terms of the loss</h2><p class="note">Mean square errors of words that are rebuilt from a'
    yield " meaning and a context. All on one scale.</p>"
    terms = _terms(facts.settings)
    scale = _loss_scale([curve for term in terms for curve in _losses(facts, term.name)])
    own = [term for term in terms if term.meaning == term.context == term.target]
    others = [term for term in terms if term not in own]
    for title, columns, some in (
        ("From a word's own meaning and context", "", own),
        ("From the meaning of one word and the context of another", " two", others),
    ):
        yield f'<h3>{title}</h3><div class="panels charts{columns}">'
        for term in some:
            meaning, context, target = (_MEMBERS[member] for member in (term.meaning, term.context, term.target))
            what = "" if term in own else f"from the meaning of the {meaning} and the context of the {context}"
            yield _figure(target, what, _losses(facts, term.name), scale, 140)
        yield "</div>"


def _separation_section(facts: RunFacts) -> Iterator[str]:
    yield '<h2 id="separation">Positives and negatives</h2><p class="note">What the meaning vectors make of held-out'
    yield " triples. Original and positive should be near each other, and the negative away from them; where unrelated"
    yield " words come near as well, the vectors collapse.</p>"
    found = facts.validations
    ordered = [Curve("ordered", "ordered", found["step"], found["ordered"], has_dots=True)]
    names = {"positive": "positive", "negative": "negative", "unrelated": "an unrelated word"}
    cosines = [Curve(name, kind, found["step"], found[f"cosine_{kind}"], True) for kind, name in names.items()]
    yield '<div class="panels charts two">'
    what = "share of triples whose original is nearer to the positive than to the negative"
    yield _figure("Ordered", what, ordered, _linear_scale(ordered, 0.9, 1.0), 190, _percent)
    yield _figure("Cosines", "means, of the original and …", cosines, _linear_scale(cosines, 0.0, 1.0), 190)
    yield "</div>"


def _speed_section(facts: RunFacts) -> Iterator[str]:
    yield '<h2 id="speed">Speed and learning rate</h2>'
    if len(facts.rates) > 1:
        yield '<p class="note">Where a broken line is, the training was stopped and resumed later.</p>'
    yield '<div class="panels charts">'
    if facts.rates:
        edges, values = zip(*facts.rates, strict=True)
        yield "<figure><figcaption><b>Triples a second</b>over the time of work, validations and checkpoints included"
        yield f"</figcaption>{steps('Triples a second over the time of work', edges, values)}</figure>"
    at = np.unique(np.clip([0.0, 1.0, facts.settings.warmup_steps, facts.step], 0, facts.step))
    rate = np.array([facts.settings.learning_rate_at(int(step)) for step in at])
    drawn = [Curve("learning rate", "rate", at, rate)]
    yield _figure("Learning rate", "over the steps", drawn, Scale.linear(rate, most_ticks=3), 70) + "</div>"


def _evaluation_section(facts: RunFacts) -> Iterator[str]:
    yield '<h2 id="evaluation">Evaluation</h2>'
    if not facts.evaluation:
        yield "<p class='note'>The model's card has no scores yet: <code>distiller evaluate --card</code> puts them"
        yield " there.</p>"
    for block in from_markdown(facts.evaluation):
        yield f'<p class="note">{escape(block)}</p>' if isinstance(block, str) else html_table("Scores", *block)


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
) -> str:
    """Curves with what they are; for those who do not see them, where each begins and ends."""
    known = [(curve, curve.y[np.isfinite(curve.y)]) for curve in drawn]
    ends = [f"{curve.name} from {say(values[0])} to {say(values[-1])}" for curve, values in known if len(values)]
    picture = curves(f"{title or 'Loss'} {what}: {', '.join(ends)}", drawn, scale, height, bound, say)
    caption = f"<figcaption><b>{escape(title)}</b>{escape(what)}</figcaption>" if title else ""
    keys = legend(drawn, say) if len(drawn) > 1 else ""
    return f'<figure class="curves">{caption}{keys}{picture}</figure>'


def _losses(facts: RunFacts, name: str) -> list[Curve]:
    return [
        Curve("training", "training", facts.steps["step"], facts.steps[name]),
        Curve("held out", "held-out", facts.validations.get("step", _NONE), facts.validations.get(name, _NONE), True),
    ]


def _loss_scale(drawn: Sequence[Curve]) -> Scale:
    return Scale.log(np.concatenate([curve.y for curve in drawn]))


def _linear_scale(drawn: Sequence[Curve], *shown: float) -> Scale:
    return Scale.linear(np.concatenate([curve.y for curve in drawn] + [np.array(shown)]))


def _terms(settings: TrainSettings) -> tuple[Term, ...]:
    return terms_of(negatives=settings.negatives, crosslingual=settings.crosslingual)
