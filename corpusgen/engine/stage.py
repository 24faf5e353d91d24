"""The base class of stages, the steps of a pass; a stage knows nothing about Ray or the store."""

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
    """The result of a stage for a table of rows.

    `rejects` are rows that end here on purpose, with a column `reason`; they are counted by reason and, in a pass with
    a table `rejects`, kept. `quarantined` are pieces of input that could not be used at all: dictionaries with at least
    `error`, and whatever says where they are. A stage that expands may say how many rows it `used`, that is, turned
    into others. Then its counts can be checked too: rows in = used + rejected + quarantined.
    """

    rows: pa.Table
    rejects: pa.Table | None = None
    quarantined: Sequence[Mapping[str, Any]] = ()
    used: int | None = None


class GpuOnly(NamedTuple):
    """A setting that needs a GPU, and what to set instead on a CPU."""

    because: str
    instead: str


GPU_BY_DEVICE = GpuOnly("generate.device is cuda", "generate.device=auto")


@dataclass
class Stage:
    """The base of all stages. Subclasses are dataclasses whose fields are the settings that determine the content.

    `process` must treat rows independently: a row gives the same result whatever the other rows are. The isolation of
    bad rows and the equality of all executors rely on it. A stage that cannot do so sets `whole`.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """To be increased when the same settings begin to give other rows."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Columns that the input must have."""
    adds: ClassVar[tuple[str, ...]] = ()
    """Columns that the stage adds; for a stage that `expands`, all columns of its output."""
    expands: ClassVar[bool] = False
    """Whether a row may become any number of new rows; if not, each becomes one row, a reject or a failure."""

    whole: ClassVar[bool] = False
    """Whether the result depends on all rows of a unit together, as a merge does; if so, they are never split."""

    can_use_gpu: ClassVar[bool] = False
    """Whether its models run faster on a GPU."""

    rows_may_fail: ClassVar[bool] = True
    """Whether a row that fails is quarantined. If a row stands for thousands of others, the run stops instead."""

    resources: Resources = field(default_factory=Resources, kw_only=True, metadata={"content": False})
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, kw_only=True, metadata={"content": False})
    """The models of the corpus as the driver recorded them. `setup` must refuse if a worker finds another one."""

    def uses(self) -> Sequence[NamedModel]:
        """Return the models that a worker loads, each with the role under which corpus.json records it."""
        return ()

    def gpu_need(self, shortest: int) -> GpuNeed | None:
        """Return the GPU memory a worker needs for texts of at least `shortest` words; None if it loads no model."""
        return None

    def gpu_only(self) -> GpuOnly | None:
        """Return the setting that needs a GPU, if there is one."""
        return None

    def setup(self) -> None:
        """Load what the stage needs, once per worker."""

    def process(self, rows: pa.Table) -> Result | pa.Table:
        """Turn rows into new rows; called with at least one row."""
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """Return everything that determines the stage's result, JSON-able; it becomes part of every unit's id."""
        settings = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self) if self._is_content(f)}
        return {"stage": self.name, "version": self.version, **settings}

    def _is_content(self, setting: dataclasses.Field[Any]) -> bool:
        """Return whether a field belongs to the identity: one added later does not while it has its default."""
        if setting.metadata.get("added_later") and getattr(self, setting.name) == setting.default:
            return False
        return bool(setting.metadata.get("content", True))


def _plain(setting: Any) -> Any:
    if isinstance(setting, list | tuple):
        return [_plain(item) for item in setting]
    return setting.content() if isinstance(setting, Section) else setting


def models_used(stages: Iterable[Stage]) -> list[NamedModel]:
    """Return the models that some stages use, each role once."""
    return list({model.role: model for stage in reversed([*stages]) for model in reversed(stage.uses())}.values())[::-1]


def split_by_reason(rows: pa.Table, reasons: Sequence[str | None]) -> Result:
    """Keep the rows whose reason is None and reject the others."""
    column = pa.array(reasons, pa.string())
    keep = pc.is_null(column)
    dropped = rows.append_column("reason", column).filter(pc.invert(keep))
    return Result(rows.filter(keep), dropped)


def check_columns(stages: Sequence[Stage], available: set[str]) -> str | None:
    """Return a message about the first stage that lacks a column it needs; None if no stage does."""
    for stage in stages:
        missing = [name for name in stage.needs if name not in available]
        if missing:
            return f"stage {stage.name!r} needs {', '.join(missing)}, but only gets {', '.join(sorted(available))}"
        available = set(stage.adds) if stage.expands else available | set(stage.adds)
    return None
