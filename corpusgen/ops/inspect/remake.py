"""The stages that made the triples of a store, set up again with exactly the recorded models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.recipes.words import RECIPE
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
                raise CorpusgenError(f"{self.store.url}: the unit {unit} of {ids[0]} is not in the plan")
            table = ReadTargets(store=self.store).process(first_batch(self._units[unit].records).rows)
            chosen = table.filter(pc.is_in(table["id"], value_set=pa.array(ids, pa.string())))
            if chosen.num_rows != len(set(ids)):
                raise CorpusgenError(f"{self.store.url}: not among the targets of the unit {unit}: {', '.join(ids)}")
            found.append(chosen)
        return pa.concat_tables(found)


def recorded_config(url: str, corpus: Mapping[str, Any]) -> BuildConfig:
    """Return the settings of a corpus; raise CorpusgenError if this version does not understand them."""
    try:
        return BuildConfig.model_validate({**corpus.get("settings", {}), "store": url})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CorpusgenError(f"{url}/corpus.json: settings of another version: {where}: {first['msg']}") from None


def check_models(stages: Sequence[Stage], recorded: Mapping[str, Any]) -> None:
    """Raise CorpusgenError unless every model of the stages is here and is the recorded one."""
    used = {model.role: model for model in models_used(stages)}
    names = [name for name in recorded if name in used]
    absent = [recorded[name]["id"] for name in names if _is_absent(recorded[name])]
    if absent:
        raise CorpusgenError(
            f"not on this machine: {', '.join(dict.fromkeys(absent))}. The models that a corpus was made with are "
            "needed; paths are relative to the folder in which it was built"
        )
    now = {name: used[name].describe() for name in names}
    differences = [
        f"  {name}: {_version(recorded[name])} was recorded, here is {_version(now[name])}"
        for name in names
        if recorded[name] != now[name] and _version(recorded[name]) != _UNKNOWN
    ]
    if differences:
        raise CorpusgenError("these are not the models that the corpus was made with:\n" + "\n".join(differences))


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
        sides = {}
        for side, settings in (("forward", config.translation.forward), ("back", config.translation.back)):
            revision = models.get(f"translation.{side}", {}).get("revision")
            if settings.backend == "transformers" and revision:
                sides[side] = settings.model_copy(update={"revision": revision})
        changes["translation"] = config.translation.model_copy(update=sides)
    return config.model_copy(update=changes)


def _for_this_machine(config: BuildConfig) -> tuple[BuildConfig, str | None]:
    """Use a number type that a CPU supports if there is no GPU; return the settings, and a note about the change."""
    masked = config.masked
    if masked is None or masked.dtype not in _OF_GPUS or choose_device(config.generate.device).type != "cpu":
        return config, None
    note = f"masked.dtype is {masked.dtype}, and float32 here, since there is no GPU: probabilities may differ a little"
    return config.model_copy(update={"masked": masked.model_copy(update={"dtype": "float32"})}), note


def _generate(config: BuildConfig, store: Store) -> list[Stage]:
    return RECIPE.passes[WORDS.pass_name].stages(config, store)


def _fingerprint(stages: Sequence[Stage]) -> str:
    return content_hash({"pass": WORDS.pass_name, "stages": [stage.identity() for stage in stages]})
