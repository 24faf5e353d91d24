"""Rows on their way between processes."""

import pickle

import pyarrow as pa

from corpusgen.engine.batch import Batch


def test_rows_arrive_without_a_copy():
    """The reader's table lies in the buffers that came beside the pickle: with Ray, in shared memory."""
    rows = pa.table({"id": range(10_000), "text": ["A sentence of some length."] * 10_000})
    buffers = []
    sent = pickle.dumps(Batch(rows, rows.slice(0, 10)), protocol=5, buffer_callback=buffers.append)
    assert len(sent) < 1_000
    before = pa.total_allocated_bytes()
    received = pickle.loads(sent, buffers=buffers)
    assert pa.total_allocated_bytes() - before < 1_000
    assert received.rows == rows
    assert received.rejects == rows.slice(0, 10)
