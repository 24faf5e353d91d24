"""`distiller train`: compute the features, train on them with Ray Train, and write the model for users.

The same command resumes from what it finds: committed features, the last checkpoint, or a finished model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from corpusgen.config.run import RunSettings, WorkerSettings
from corpusgen.engine.cluster import available_cores, is_this_machine, may_grow, ray_cluster
from corpusgen.engine.progress import terminal_progress
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.errors import ConfigError, StoreError
from corpusgen.io.lock import held
from corpusgen.store import Store
from corpusgen.store.products import BOTH
from distiller.settings import FeatureSettings, TrainSettings
from distiller.training.charts import loss_chart, rates_chart
from distiller.training.checkpoints import unpacked
from distiller.training.loop import training_split
from distiller.training.progress import board
from distiller.training.ray_train import explained, fit, gpus
from distiller.training.report import write_report
from distiller.training.run_folder import History, RunFolder, to_csv
from distiller.training.worker import Instructions, find_rate_part, train_part
from distiller.words.features import all_made_of, features_content, features_identity, make_features
from distiller.words.objective import check_fits, objective_of, products_for
from distiller.words.residual import ResidualModel
from distiller.words.saved import IN_A_RUN, SavedModel, ordered_text, write_saved

Say = Callable[[str], None]
Contents = Mapping[str, Mapping[str, Any]]
"""What the layer states of each table are made from, by its name."""

_RATES = {"lowest": 1e-7, "highest": 1.0, "steps": 140}


def train(settings: TrainSettings, address: str | None = None, say: Say = print) -> str:
    """Train a model, or resume its training, and return its folder."""
    contents = _checked(settings)
    run = RunFolder(settings.output)
    with held(run.files, "training", "a training", say) as lock:
        run.ensure_same(settings, {"made of": all_made_of(contents)})
        folder = f"{run.url}/{IN_A_RUN}"
        if run.trained:
            say(f"{folder}: already trained; remove it to train again")
            return folder
        run.last(say)  # report unusable checkpoints now rather than in a worker
        with ray_cluster(address):
            _check_room(settings, address, say)
            instructions = replace(_instructions(settings, contents, say), lock=lock)
            with board() as shown:
                problem = _fit(train_part, settings, {"instructions": replace(instructions, board=shown)})
        if problem:
            raise explained(problem)
        lock.check()
        _write_model(run, settings, contents, say)
        return folder


def _write_model(run: RunFolder, settings: TrainSettings, contents: Contents, say: Say) -> None:
    """Write the best weights as users load them, the loss curve and the report of the training."""
    last = run.last(say)
    assert last is not None
    state = unpacked(last)
    if state["best"] is None:
        raise StoreError(
            f"{run.url}: training has finished, but the best weights are lost; remove {run.url}/checkpoints to train "
            "from the beginning"
        )
    history = History(**state["history"])
    best = history.validation_of(state["progress"]["best_step"])
    run.files.write("loss.svg", loss_chart(history.steps, history.validations, best))
    content = _any_of(contents)
    model = objective_of(settings).new_model(len(content["layers"]), content["dimension"])
    model.load_state_dict(state["best"])
    say(
        f"best of {len(history.validations)} validations, after step {best['step']:,}: loss {best['loss']:.4f}, "
        f"{ordered_text(best, isinstance(model, ResidualModel))}"
    )
    folder = f"{run.url}/{IN_A_RUN}"
    trained_with = settings.model_copy(update={"table": BOTH.join(contents)})  # the model names its tables
    write_saved(folder, SavedModel.of(model, trained_with, content["layers"], content["backbone"], best))
    say(f"model: {folder}")
    say(f"report: {write_report(settings.output)}")


def find_learning_rate(settings: TrainSettings, address: str | None = None, say: Say = print) -> float:
    """Raise the learning rate until the loss soars; return a tenth of the rate at the lowest loss, a good choice."""
    contents = _checked(settings)
    files = RunFolder(settings.output).files
    with held(files, "training", "a search for a learning rate", say):
        with ray_cluster(address):
            _check_room(settings, address, say)
            found = _fit(find_rate_part, settings, {"instructions": _instructions(settings, contents, say), **_RATES})
        rates: list[float] = [rate for rate, _ in found]
        losses = smoothed([loss for _, loss in found])
        lowest = rates[losses.index(min(losses))]
        rows = [
            {"learning_rate": rate, "loss": loss, "smoothed": smooth}
            for (rate, loss), smooth in zip(found, losses, strict=True)
        ]
        files.write("find_lr.csv", to_csv(rows))
        files.write("find_lr.svg", rates_chart(rates, losses, lowest / 10))
    for index in range(0, len(rates), 10):
        say(f"{rates[index]:9.1e}  {losses[index]:.4f}")
    say(f"lowest loss at {lowest:.1e}; suggested: learning_rate: {lowest / 10:.1e} ({files.url}/find_lr.svg)")
    return lowest / 10


def smoothed(losses: list[float], share: float = 0.8) -> list[float]:
    """Return the exponential running mean, where the past weighs `share`, corrected for the bias at the start."""
    result, mean = [], 0.0
    for count, loss in enumerate(losses, 1):
        mean = share * mean + (1 - share) * loss
        result.append(mean / (1 - share**count))
    return result


def _checked(settings: TrainSettings) -> Contents:
    """Return what the layer states are made from; raise errors for what cannot work before anything starts."""
    corpus = Store.at(settings.corpus)
    products = products_for(settings, corpus)
    groups: list[str] = []
    for product in products:
        check_fits(settings, product)
        rows = product.open(corpus)
        if not rows.num_rows:
            raise StoreError(f"{settings.corpus} has no {product.table} yet; make them with `corpusgen build`")
        if not rows.complete:
            raise StoreError(
                f"{settings.corpus} is still being built, so its {product.table} would change during training; "
                "finish the build first (`corpusgen build` resumes it, `corpusgen status` shows its progress)"
            )
        groups += map(product.group_of, rows.to_table(["id"])["id"].to_pylist())
    contents = {
        product.table: features_content(corpus, _feature_settings(settings, product.table)) for product in products
    }
    try:
        content = _any_of(contents)
        objective_of(settings).new_model(len(content["layers"]), content["dimension"])
    except ValueError as error:
        raise ConfigError(f"heads: {error}") from None
    training_split(groups, settings)
    return contents


def _feature_settings(settings: TrainSettings, table: str) -> FeatureSettings:
    return FeatureSettings(backbone=settings.backbone, table=table)


def _check_room(settings: TrainSettings, address: str | None, say: Say) -> None:
    import ray

    found = gpus()
    if found and settings.workers > found:
        raise ConfigError(f"workers: {settings.workers}, but the cluster has {found} GPUs")
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if len(ray.nodes()) == 1:
        cpus = min(cpus, available_cores())
    remedy = ""
    if not found and not is_this_machine(address) and may_grow():
        remedy = "; training uses the nodes present when it starts: add nodes first (min_workers, docs/cluster.md)"
        say(f"the cluster has no GPUs at the moment{remedy}")
    if not found and settings.workers > cpus:
        raise ConfigError(f"workers: {settings.workers}, but there are {cpus} CPUs{remedy}")


def _instructions(settings: TrainSettings, contents: Contents, say: Say) -> Instructions:
    """Return the instructions for the workers; compute the layer states now unless training computes them."""
    path = os.path.expanduser(settings.backbone.model)
    backbone = {"model": os.path.abspath(path)} if os.path.isdir(path) else {}
    # Workers have their own working directory, so paths must be absolute.
    everywhere = settings.model_copy(
        update={
            "corpus": Store.at(settings.corpus).url,
            "output": RunFolder(settings.output).url,
            "backbone": settings.backbone.model_copy(update=backbone),
            "cache": settings.cache and os.path.abspath(os.path.expanduser(settings.cache)),
        }
    )
    if settings.features == "cached":
        _make_features(everywhere, contents, say)
    identities = {table: features_identity(content) for table, content in contents.items()}
    return Instructions(everywhere, identities, _any_of(contents)["backbone"])


def _any_of(contents: Contents) -> Mapping[str, Any]:
    """Return the content of one table, for what all have in common: the frozen model, its layers and dimension."""
    return next(iter(contents.values()))


def _make_features(settings: TrainSettings, tables: Iterable[str], say: Say) -> None:
    """Compute the features of the corpus that do not exist yet."""
    run = features_run(gpus())
    with RayExecutor(run, terminal_progress()) as executor:
        for table in tables:
            make_features(
                settings.corpus,
                _feature_settings(settings, table),
                executor,
                run,
                on_estimate=lambda estimate: say(f"features: {estimate}"),
            )


def features_run(gpus: int) -> RunSettings:
    """Return the settings for computing features: one GPU per worker, if there are any."""
    return RunSettings(workers={"features": WorkerSettings(gpus=1, max_workers=gpus)} if gpus else {})


def _fit(part: Callable[[dict[str, Any]], Any], settings: TrainSettings, config: dict[str, Any]) -> Any:
    return fit(part, config, settings.workers, settings.max_failures)
