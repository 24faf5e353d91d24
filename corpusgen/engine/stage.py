"""A stage: one step of a pass, with the workers it needs. It knows nothing of Ray or of the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.config.run import Resources
from corpusgen.config.section import Section
from corpusgen.models.gpu_memory import GpuNeed
from corpusgen.models.identity import NamedModel


@dataclass(frozen=True)
class Result:
    """What a stage made of a table of rows.

    `rejects` are rows that end here on purpose, with a column `reason`; they are counted by it and, in a pass that
    has a table `rejects`, kept. `quarantined` are pieces of input that could not be used at all: dictionaries with
    at least `error`, and whatever tells where they are. A stage that expands may say how many rows it `used`, that is
    turned into others. Then its books can be closed too: rows in = used + rejected + quarantined.
    """

    rows: pa.Table
    rejects: pa.Table | None = None
    quarantined: Sequence[Mapping[str, Any]] = ()
    used: int | None = None


class GpuOnly(NamedTuple):
    """A setting that only a GPU can serve, and what to set instead on a CPU."""

    because: str
    instead: str


GPU_BY_DEVICE = GpuOnly("generate.device is cuda", "generate.device=auto")


@dataclass
class Stage:
    """Base of all stages. Subclasses are dataclasses whose fields are the settings that determine the content.

    `process` must treat rows independently: the same row in other company gives the same result. On that rest
    the isolation of bad rows and the equality of all executors. A stage that cannot says so with `whole`.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Raise it when the same settings begin to give other rows."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Columns that must be there."""
    adds: ClassVar[tuple[str, ...]] = ()
    """Columns that are there afterwards; of a stage that `expands`, all of them."""
    expands: ClassVar[bool] = False
    """Whether a row may become any number of new rows; else each becomes one row, a reject or a failure."""

    whole: ClassVar[bool] = False
    """Whether the result depends on all rows of a unit together, as a merge does: then they are never taken apart."""

    can_use_gpu: ClassVar[bool] = False
    """Whether its models run faster on a GPU."""

    rows_may_fail: ClassVar[bool] = True
    """Whether a row that cannot be processed is quarantined. Where one stands for thousands, the run stops instead."""

    resources: Resources = field(default_factory=Resources, kw_only=True, metadata={"content": False})
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, kw_only=True, metadata={"content": False})
    """The models of the corpus as the driver recorded them. A worker that finds another one must refuse in `setup`."""

    def uses(self) -> Sequence[NamedModel]:
        """Return the models that a worker loads, by the role that corpus.json records each under."""
        return ()

    def gpu_need(self, shortest: int) -> GpuNeed | None:
        """Return what a worker takes of a GPU's memory for texts of at least `shortest` words; None: it loads none."""
        return None

    def gpu_only(self) -> GpuOnly | None:
        """Return the setting that needs a GPU, if there is one."""
        return None

    def setup(self) -> None:
        """Load what the stage needs, once per worker."""

    def process(self, rows: pa.Table) -> Result | pa.Table:
        """Turn rows into rows; called with at least one."""
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """Everything about the stage that determines its result, JSON-able: it becomes part of every unit's id."""
        content = [f.name for f in dataclasses.fields(self) if f.metadata.get("content", True)]
        settings = {name: _plain(getattr(self, name)) for name in content}
        return {"stage": self.name, "version": self.version, **settings}


def _plain(setting: Any) -> Any:
    return setting.model_dump(mode="json") if isinstance(setting, Section) else setting


def models_used(stages: Iterable[Stage]) -> list[NamedModel]:
    """Return the models of some stages, each role once."""
    return list({model.role: model for stage in reversed([*stages]) for model in reversed(stage.uses())}.values())[::-1]


def split_by_reason(rows: pa.Table, reasons: Sequence[str | None]) -> Result:
    """Keep the rows whose reason is None and reject the others."""
    column = pa.array(reasons, pa.string())
    keep = pc.is_null(column)
    dropped = rows.append_column("reason", column).filter(pc.invert(keep))
    return Result(rows.filter(keep), dropped)


def check_columns(stages: Sequence[Stage], available: set[str]) -> str | None:
    """The first stage whose columns will not be there, as a message; None if all is well."""
    for stage in stages:
        missing = [name for name in stage.needs if name not in available]
        if missing:
            return f"stage {stage.name!r} needs {', '.join(missing)}, but gets only {', '.join(sorted(available))}"
        available = set(stage.adds) if stage.expands else available | set(stage.adds)
    return None
