"""What the tests of sources share: archives of many members, readers that know nothing of each other."""

import bz2
import gzip
import lzma
import re

import pyarrow as pa

from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.sources import streams
from corpusgen.sources.locate import find_files
from corpusgen.sources.streams import Problem, byte_ranges, read_records

COMPRESS = {
    "": lambda data: data,
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def source(path):
    """The file as a plan names it."""
    return find_files([str(path)])[0]


def archive(suffix, *texts):
    """One member, stream or frame for each text."""
    return b"".join(map(COMPRESS[suffix], texts))


def read_all(path, unit_bytes, **markers):
    """All ranges of a file, one after the other."""
    file = source(path)
    return [
        record for start, stop in byte_ranges(file, unit_bytes) for record in read_records(file, start, stop, **markers)
    ]


class Reader:
    """A process of its own: it keeps a stream that no other one sees."""

    def __init__(self):
        self._kept = []

    def read(self, file, start, stop, most=None, **markers):
        """The records of a range; after `most` of them the reader is interrupted."""
        before, streams._kept[:] = list(streams._kept), self._kept
        try:
            records = read_records(file, start, stop, **markers)
            if most is not None:
                found = [record for record, _ in zip(records, range(most), strict=False)]
                records.close()
                return found
            return list(records)
        finally:
            self._kept, streams._kept[:] = list(streams._kept), before


def reference(data, begins=b"", ends=b"", longest=1 << 30):
    """What a sequential reading of a text finds, said as simply as it can be."""
    found, record, began, offset = [], b"", 0, 0
    for line in re.findall(rb"[^\n]*\n|[^\n]+$", data):
        starts = line.lstrip().startswith(begins)
        if record and starts:
            found.append(Problem(began, "the record that starts here does not end before the next one starts"))
            record = b""
        if record or starts:
            began = began if record else offset
            record += line
            if len(line) > longest:
                found.append(Problem(began, f"a line of more than {longest >> 20} MB"))
                record = b""
            elif not begins or line.rstrip().endswith(ends):
                found.append((began, record))
                record = b""
            elif offset - began > longest:
                found.append(Problem(began, f"a record of more than {longest >> 20} MB"))
                record = b""
        offset += len(line)
    if record:
        found.append(Problem(began, "the text ends inside this record"))
    return found


def run(stage, slices):
    """All units through one stage: rows, rejects by reason, quarantined."""
    batches = [run_stage(stage, Batch(pa.Table.from_pylist(records))) for records in slices]
    whole = Batch.concat(batches) if batches else Batch(None)
    rows = whole.rows.to_pylist() if whole.rows is not None else []
    rejected = whole.stages[stage.name].rejected if batches else {}
    return rows, rejected, list(whole.quarantined)
