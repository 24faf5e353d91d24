"""The stages that made the triples of a store, set up again with exactly the recorded models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.recipes.words import RECIPE
from corpusgen.corpus.stored_settings import recorded_config
from corpusgen.corpus.triples.stages import ReadTargets
from corpusgen.engine.local import set_up
from corpusgen.engine.passes import first_batch
from corpusgen.engine.stage import Stage, models_used
from corpusgen.errors import CorpusgenError
from corpusgen.io.hashing import content_hash
from corpusgen.models import embedded
from corpusgen.models.encoders import choose_device
from corpusgen.models.files import S3
from corpusgen.store import Store, Unit
from corpusgen.store.products import WORDS


class Workshop:
    """The stages of a store, ready to make any of its triples again.

    `same_code` is false if the stages have another version than the recorded ones; `note` says what else differs from
    then.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        corpus = store.corpus()
        config = recorded_config(store.url, corpus)
        self._plan = store.pass_store(WORDS.pass_name).plan()
        self._units: Mapping[str, Unit] = {unit.id: unit for unit in self._plan.units}
        fingerprint = _fingerprint(_generate(config, store))
        self.same_code = fingerprint == self._plan.fingerprint
        self.models: Mapping[str, Any] = corpus.get("models", {})
        config = _pinned(config, self.models)
        check_models(_generate(config, store), self.models)
        self.config, self.note = _for_this_machine(config)
        config = self.config
        self.stages: Sequence[Stage] = _generate(config, store)[1:]
        set_up(self.stages)

    def targets(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Return the targets that these triples or rejects were made from, as the first stage got them."""
        of_unit: dict[str, list[str]] = {}
        for row in rows:
            of_unit.setdefault(row["unit"], []).append(row["id"])
        found = []
        for unit, ids in of_unit.items():
            if unit not in self._units:
                raise CorpusgenError(
                    f"{self.store.url}: the unit {unit} of {ids[0]} is not in the plan; run `corpusgen verify`"
                )
            table = ReadTargets(store=self.store).process(first_batch(self._units[unit].records).rows)
            chosen = table.filter(pc.is_in(table["id"], value_set=pa.array(ids, pa.string())))
            if chosen.num_rows != len(set(ids)):
                raise CorpusgenError(f"{self.store.url}: the unit {unit} does not have these targets: {', '.join(ids)}")
            found.append(chosen)
        return pa.concat_tables(found)


def check_models(stages: Sequence[Stage], recorded: Mapping[str, Any]) -> None:
    """Raise CorpusgenError unless every model of the stages is here and is the recorded one."""
    used = {model.role: model for model in models_used(stages)}
    names = [name for name in recorded if name in used]
    absent = [recorded[name]["id"] for name in names if _is_absent(recorded[name])]
    if absent:
        raise CorpusgenError(
            f"not on this machine: {', '.join(dict.fromkeys(absent))}. This command needs the models that the corpus "
            "was made with; relative paths start at the folder in which it was built"
        )
    now = {name: used[name].describe() for name in names}
    differences = [
        f"  {name}: {_version(recorded[name])} recorded, {_version(now[name])} here"
        for name in names
        if recorded[name] != now[name] and _version(recorded[name]) != _UNKNOWN
    ]
    if differences:
        raise CorpusgenError("these models differ from those that the corpus was made with:\n" + "\n".join(differences))


_UNKNOWN = "an unknown version"
_OF_GPUS = ("float16", "bfloat16")


def _version(model: Mapping[str, Any]) -> str:
    version = model.get("sha256") or model.get("revision")
    return f"{model['id']} ({version})" if version else _UNKNOWN


def _is_absent(model: Mapping[str, Any]) -> bool:
    """Return whether a file or folder is missing; models on a hub or S3 are requested later."""
    is_local = bool(model.get("sha256")) and not str(model["id"]).startswith((embedded.PREFIX, S3))
    return is_local and not os.path.exists(os.path.expanduser(model["id"]))


def _pinned(config: BuildConfig, models: Mapping[str, Any]) -> BuildConfig:
    """Pin models from a hub to the recorded revision, whatever their branch has become since."""
    revision = models.get("masked", {}).get("revision")
    changes: dict[str, Any] = {}
    if config.masked and revision:
        changes["masked"] = config.masked.model_copy(update={"revision": revision})
    if config.translation:
        pinned = {
            role: translator.model_copy(update={"revision": revision})
            for role, translator in config.translation.translators.items()
            if translator.backend == "transformers" and (revision := models.get(role, {}).get("revision"))
        }
        changes["translation"] = config.translation.with_translators(pinned)
    return config.model_copy(update=changes)


def _for_this_machine(config: BuildConfig) -> tuple[BuildConfig, str | None]:
    """Use a number type that a CPU supports if there is no GPU; return the settings, and a note about the change."""
    masked = config.masked
    if masked is None or masked.dtype not in _OF_GPUS or choose_device(config.generate.device).type != "cpu":
        return config, None
    note = f"masked.dtype is {masked.dtype}, but float32 is used here, without a GPU: probabilities may differ slightly"
    return config.model_copy(update={"masked": masked.model_copy(update={"dtype": "float32"})}), note


def _generate(config: BuildConfig, store: Store) -> list[Stage]:
    return RECIPE.passes[WORDS.pass_name].stages(config, store)


def _fingerprint(stages: Sequence[Stage]) -> str:
    return content_hash({"pass": WORDS.pass_name, "stages": [stage.identity() for stage in stages]})
