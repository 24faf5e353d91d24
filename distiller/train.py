"""`distiller train`: features, then a Ray Train job over them, then the model as users load it.

The same command goes on with what it finds: features that are committed, the last checkpoint, a finished model.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from corpusgen.engine.cluster import available_cores, ray_cluster
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.engine.settings import RunSettings
from corpusgen.errors import ConfigError, CorpusgenError
from corpusgen.store import Store
from corpusgen.store.files import open_files
from distiller.data import FeatureChunk, MappedFeatures
from distiller.features import make_features, open_features
from distiller.model import WordModel
from distiller.saved import save_model
from distiller.settings import FeatureSettings, TrainSettings
from distiller.training import Training, Validation

_STATE = "training.pt"
_HISTORY = "history.json"
_SETTINGS = "settings.json"
MODEL = "model"

Say = Callable[[str], None]


def train(settings: TrainSettings, address: str | None = None, say: Say = print) -> str:
    """Train, or go on with it, and return the folder of the model."""
    files = open_files(settings.output)
    _ensure_same_settings(files, settings)
    model_folder = f"{files.url}/{MODEL}"
    if files.exists(f"{MODEL}/config.json"):
        say(f"{model_folder}: trained already; remove it to train again")
        return model_folder
    with ray_cluster(address):
        _check_room(settings)
        store = _make_features(settings, say)
        history, weights, progress = _fit(settings, store.url)
    features = open_features(store, settings.corpus)
    for name, data in _logs(history).items():
        files.write(name, data)
    best = min(history["validations"], key=lambda validation: float(validation["loss"]))
    if best["step"] != progress["step"]:
        say(f"the best of {len(history['validations'])} validations was after step {best['step']:,}")
    model = WordModel(features.dimension, settings.heads, settings.dropout)
    model.load_state_dict(weights)
    save_model(files, MODEL, model, settings, features.layers, best)
    say(f"model: {model_folder}")
    return model_folder


def _ensure_same_settings(files: Any, settings: TrainSettings) -> None:
    """Start a run, or see that the one that is here was started with the same settings."""
    content = settings.model_dump(mode="json", exclude={"output", "workers", "max_failures", "checkpoint_steps"})
    data = json.dumps(content, indent=1).encode()
    if files.create(_SETTINGS, data):
        return
    stored = json.loads(files.read(_SETTINGS))
    different = sorted(name for name in {*stored, *content} if stored.get(name) != content.get(name))
    if different:
        raise ConfigError(
            f"{files.url} holds a run with other settings:\n"
            + "\n".join(f"  {name}: {stored.get(name)} there, {content.get(name)} now" for name in different)
            + "\nuse these again to go on, or give another output"
        )


def _check_room(settings: TrainSettings) -> None:
    import ray

    gpus = int(ray.cluster_resources().get("GPU", 0))
    if gpus and settings.workers > gpus:
        raise ConfigError(f"workers: {settings.workers}, but the cluster has {gpus} GPUs")
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if len(ray.nodes()) == 1:
        cpus = min(cpus, available_cores())
    if not gpus and settings.workers > cpus:
        raise ConfigError(f"workers: {settings.workers}, but there are {cpus} CPUs")


def _make_features(settings: TrainSettings, say: Say) -> Store:
    """The features of the corpus; what is there is not made again."""
    wanted = FeatureSettings(backbone=settings.backbone)
    run = RunSettings()
    with RayExecutor(run) as executor:
        return make_features(
            settings.corpus, wanted, executor, run, on_estimate=lambda estimate: say(f"features: {estimate}")
        )


def _fit(settings: TrainSettings, features: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Run the job; its history, and weights and progress of the best checkpoint."""
    import ray
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    parent, _, name = settings.output.rstrip("/").rpartition("/")
    gpu = ray.cluster_resources().get("GPU", 0) > 0
    trainer = TorchTrainer(
        _work,
        train_loop_config={"settings": settings.model_dump(mode="json"), "features": features},
        scaling_config=ScalingConfig(num_workers=settings.workers, use_gpu=gpu),
        run_config=RunConfig(
            name=name,
            storage_path=parent if "://" in parent else os.path.abspath(parent or "."),
            failure_config=FailureConfig(max_failures=settings.max_failures),
            checkpoint_config=CheckpointConfig(
                num_to_keep=2, checkpoint_score_attribute="validation_loss", checkpoint_score_order="min"
            ),
        ),
    )
    try:
        result = trainer.fit()
    except Exception as error:
        raise CorpusgenError(f"training failed: {error}; the same command goes on from the last checkpoint") from error
    if result.checkpoint is None:
        raise CorpusgenError("training ended without a checkpoint")
    best = result.get_best_checkpoint("validation_loss", "min") or result.checkpoint
    with result.checkpoint.as_directory() as folder:
        history = json.loads((Path(folder) / _HISTORY).read_text())
    with best.as_directory() as folder:
        state = torch.load(Path(folder) / _STATE, map_location="cpu", weights_only=True)
    return history, state["model"], state["progress"]


def _work(config: dict[str, Any]) -> None:
    """What each worker does."""
    import ray.train
    from ray.train.torch import get_device

    settings = TrainSettings.model_validate(config["settings"])
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    features = open_features(Store.at(config["features"]), settings.corpus)
    mapped = MappedFeatures.open(_cache_folder(), config["features"], lambda: _chunks(features))
    training = Training(settings, mapped, rank, workers, str(get_device()))
    history: dict[str, list[dict[str, Any]]] = {"steps": [], "validations": []}
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            training.load_state(torch.load(Path(folder) / _STATE, map_location="cpu", weights_only=True))
            history = json.loads((Path(folder) / _HISTORY).read_text())
    for step, terms, validation in training.run():
        history["steps"].append({"step": step, "loss": sum(terms.values()), **terms})
        if validation:
            history["validations"].append(asdict(validation))
        if validation or training.progress.finished or step % settings.checkpoint_steps == 0:
            _report(training, history, terms, validation)


def _report(
    training: Training, history: dict[str, Any], terms: dict[str, float], validation: Validation | None
) -> None:
    """Tell Ray how it goes, with a checkpoint: written by one, waited for by all."""
    import ray.train

    # A checkpoint without a validation is only there to go on from, and never the best.
    loss = validation.loss if validation else float("inf")
    metrics = {"step": training.progress.step, "loss": sum(terms.values()), "validation_loss": loss, **terms}
    if training.rank != 0:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.save(training.state(), Path(folder) / _STATE)
        (Path(folder) / _HISTORY).write_text(json.dumps(history))
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def _chunks(features: Any) -> Iterator[FeatureChunk]:
    for batch in features.batches():
        yield FeatureChunk(batch.ids.to_pylist(), np.stack(batch[1:], axis=1))


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wicdistil"


def _logs(history: dict[str, Any]) -> dict[str, bytes]:
    """CSV files of the losses, and a picture of them if matplotlib is there."""
    logs = {f"{name}.csv": _csv(rows) for name, rows in history.items() if rows}
    try:
        logs["loss.png"] = _curve(history)
    except ImportError:
        logging.getLogger(__name__).warning("no picture of the losses: pip install matplotlib")
    return logs


def _csv(rows: list[dict[str, Any]]) -> bytes:
    flat = [{**row, **row.get("terms", {})} for row in rows]
    text = io.StringIO()
    names = [name for name in flat[0] if name != "terms"]
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue().encode()


def _curve(history: dict[str, Any]) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel="step", ylabel="loss", yscale="log")
    for name, label in (("steps", "training"), ("validations", "held out")):
        axes.plot([row["step"] for row in history[name]], [row["loss"] for row in history[name]], label=label)
    axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()
