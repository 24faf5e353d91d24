"""The executor for tests, debugging and tiny jobs, a loop in this process."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from corpusgen.config.run import RunSettings
from corpusgen.engine.counters import Tally
from corpusgen.engine.events import EventLog
from corpusgen.engine.isolate import run_stage
from corpusgen.engine.memory import FreedMemory
from corpusgen.engine.passes import Pass, Sink, first_batch
from corpusgen.engine.progress import Progress, Silent
from corpusgen.engine.signals import StopRequest
from corpusgen.engine.stage import Stage
from corpusgen.errors import CorpusgenError, StageError
from corpusgen.store import PassStore, Unit


class LocalExecutor:
    """An executor that runs units one after the other. A row that kills the process kills the run."""

    def __init__(self, settings: RunSettings | None = None, progress: Progress | None = None) -> None:
        self._settings = settings or RunSettings()
        self._progress = progress or Silent()

    def run(self, pass_: Pass, store: PassStore, units: Sequence[Unit], tally: Tally) -> None:
        """Process and commit the units."""
        run = secrets.token_hex(4)
        events = EventLog(store, run)
        sink = Sink(store, pass_.tables, pass_.derived)
        set_up(pass_.stages)
        freed = FreedMemory()
        with StopRequest() as stop:
            try:
                for unit in units:
                    if stop.signal:
                        break
                    batch = first_batch(unit.records)
                    for index, stage in enumerate(pass_.stages):
                        batch = run_stage(stage, batch)
                        tally.add(index, [batch.stages[stage.name]])
                    won = sink.commit(unit.id, f"{run}-1", batch)
                    tally.units_done += 1
                    tally.lost_races += not won
                    events.unit_done(unit.id, 1, won, list(batch.stages.values()))
                    events.flush()
                    self._progress.update(tally)
                    freed.give_back()
                    tally.check_failures(self._settings.failure_limit)
            finally:
                self._progress.update(tally, final=True)
                events.flush(force=True)


def set_up(stages: Sequence[Stage]) -> None:
    """Load what the stages need; raise StageError with the stage's name if one cannot be set up."""
    for stage in stages:
        try:
            stage.setup()
        except CorpusgenError:
            raise
        except Exception as error:
            raise StageError(f"cannot set up stage {stage.name!r}: {type(error).__name__}: {error}") from error
