"""Functions that run a stage on a batch so that a bad row harms no other row."""

from __future__ import annotations

import base64
import errno
import time
import traceback
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from corpusgen.credentials import without_credentials
from corpusgen.engine.batch import Batch, concat_tables
from corpusgen.engine.stage import Result, Stage
from corpusgen.errors import CorpusgenError, StageError
from corpusgen.store import StageCount

_MACHINE_ERRORS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EIO,
}
_NO_ROWS = pa.table({})
_LONGEST_FIELD = 2000  # characters of a quarantined field: enough to find and recognise the record


def run_stage(stage: Stage, batch: Batch) -> Batch:
    """Return the batch after the stage. Rows that make it raise go to `quarantined`; all others pass through."""
    if batch.rows is None or not batch.num_rows:
        return _extended(batch, Result(_NO_ROWS), StageCount(stage.name, expands=stage.expands))
    started = time.perf_counter()
    result = _process(stage, batch.rows)
    count = StageCount(
        stage.name,
        rows_in=batch.num_rows,
        rows_out=result.rows.num_rows,
        rejected=_by_reason(result.rejects),
        quarantined=len(result.quarantined),
        expands=stage.expands,
        seconds=round(time.perf_counter() - started, 6),
        used=result.used,
    )
    return _extended(batch, result, count)


def quarantine_all(stage: Stage, batch: Batch, error: str) -> Batch:
    """Quarantine all rows of a batch without processing them, because they are known to kill the stage."""
    assert batch.rows is not None
    failures = [_failure(row, error) for row in batch.rows.to_pylist()]
    count = StageCount(stage.name, rows_in=batch.num_rows, quarantined=len(failures), expands=stage.expands)
    return _extended(batch, Result(_NO_ROWS, None, failures), count)


def _extended(batch: Batch, result: Result, count: StageCount) -> Batch:
    return Batch(
        concat_tables([result.rows]),
        concat_tables([batch.rejects, result.rejects]),
        [*batch.quarantined, *({"stage": count.name, **record} for record in result.quarantined)],
        {**batch.stages, count.name: count},
    )


def _process(stage: Stage, rows: pa.Table) -> Result:
    """Process all rows or, if that raises, each half separately, down to the single row that raises."""
    try:
        result = stage.process(rows)
        result = result if isinstance(result, Result) else Result(result)
        _check_result(stage, rows, result)
    except Exception as error:
        if _not_the_rows_fault(error):
            raise
        if stage.whole or not stage.rows_may_fail:
            raise StageError(f"stage {stage.name!r} failed: {type(error).__name__}: {error}") from error
        if rows.num_rows == 1:
            return Result(_NO_ROWS, None, [_failure(rows.to_pylist()[0], error)])
    else:
        return result
    middle = rows.num_rows // 2
    return _joined(_process(stage, rows.slice(0, middle)), _process(stage, rows.slice(middle)))


def _joined(a: Result, b: Result) -> Result:
    return Result(
        concat_tables([a.rows, b.rows]) or _NO_ROWS,
        concat_tables([a.rejects, b.rejects]),
        [*a.quarantined, *b.quarantined],
        None if a.used is None and b.used is None else (a.used or 0) + (b.used or 0),
    )


def _check_result(stage: Stage, rows: pa.Table, result: Result) -> None:
    """Raise StageError if a stage loses rows: it is wrong for every row, so no single one is to blame."""
    if stage.expands:
        return
    rejected = 0 if result.rejects is None else result.rejects.num_rows
    out = result.rows.num_rows + rejected + len(result.quarantined)
    if out != rows.num_rows:
        raise StageError(
            f"stage {stage.name!r} received {rows.num_rows} rows but accounts for {out}; "
            "each must be returned as a row, a reject or a quarantined record"
        )


def _not_the_rows_fault(error: Exception) -> bool:
    if isinstance(error, CorpusgenError | MemoryError | ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno in _MACHINE_ERRORS


def _by_reason(rejects: pa.Table | None) -> dict[str, int]:
    if rejects is None or not rejects.num_rows:
        return {}
    counts = rejects.column("reason").value_counts().to_pylist()
    return {entry["values"]: entry["counts"] for entry in sorted(counts, key=lambda entry: str(entry["values"]))}


def _failure(row: Mapping[str, Any], error: Exception | str) -> dict[str, Any]:
    failure: dict[str, Any] = {"error": str(error)}
    if isinstance(error, Exception):
        frames = traceback.extract_tb(error.__traceback__)
        # File names without folders, so that the same failure reads the same on every machine.
        failure["error"] = without_credentials("".join(traceback.format_exception_only(error)).strip())
        failure["where"] = [f"{PurePath(f.filename).name}:{f.lineno} {f.name}" for f in frames]
    return {**failure, "record": {name: _readable(value) for name, value in row.items()}}


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        value = base64.b64encode(value[:_LONGEST_FIELD]).decode()
    if isinstance(value, str) and len(value) > _LONGEST_FIELD:
        return f"{value[:_LONGEST_FIELD]}… ({len(value):,} characters)"
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        return {name: _readable(item) for name, item in value.items()}
    return value if isinstance(value, int | float | str | bool | None) else str(value)
