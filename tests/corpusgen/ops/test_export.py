"""Triples in other formats: all of them, whole or not there, and nothing overwritten unasked."""

import errno
import json
import os

import pyarrow.parquet as pq
import pytest
import yaml

from corpusgen.errors import CorpusgenError
from corpusgen.ops import export as exporting
from corpusgen.ops.export import export, tsv_files
from corpusgen.store import CommittedTable, TripleStore
from corpusgen.store.products import WORDS, open_product
from corpusgen.store.rows import plain_rows
from tests.corpusgen.ops.report.support import commit_unit, plan_generate, small_store, start, triple

TSV_FILES = ("triples.and", "triples.positive_and", "triples.negative_sense_and")


def stored(root):
    return [row for batch in TripleStore(root).batches() for row in plain_rows(batch)]


def everything_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def local(tmp_path):
    small_store(str(tmp_path / "store"))
    return str(tmp_path / "store")


def test_json_lines_have_all_columns_of_all_triples(root, tmp_path):
    small_store(root)
    path = tmp_path / "out" / "triples.jsonl"
    assert export(root, str(path), "jsonl") == 4
    assert [json.loads(line) for line in path.read_text().splitlines()] == stored(root)
    assert everything_in(path.parent) == ["triples.jsonl"]


def test_tsv_is_what_the_published_code_reads(tmp_path):
    root = str(tmp_path / "store")
    store = start(root)
    odd = triple(1, after=" of\tthe\r\nriver.")
    commit_unit(plan_generate(store, 2), 1, [odd, triple(2, ("Spring", "Fountain", "Winter"))])
    folder = tmp_path / "corpus"
    assert export(root, str(folder), "tsv") == 2
    assert everything_in(folder) == sorted(TSV_FILES)

    def load(name):
        """As its `load_corpus` does."""
        with (folder / name).open() as lines:
            return [line.strip().split("\t") for line in lines]

    assert load("triples.and") == [
        ["bank", "They sat on the bank of the  river."],
        ["Spring", "They sat on the Spring of the river."],
    ]
    assert [word for word, _ in load("triples.positive_and")] == ["shore", "Fountain"]
    assert [word for word, _ in load("triples.negative_sense_and")] == ["money", "Winter"]
    assert all(word in sentence for name in TSV_FILES for word, sentence in load(name))


@pytest.mark.parametrize("most", [1, 3, 4, 100])
def test_a_dataset_is_shards_and_a_card_that_describes_them(local, tmp_path, monkeypatch, most):
    monkeypatch.setattr(exporting, "_ROWS_OF_A_SHARD", most)
    folder = tmp_path / "triples"
    assert export(local, str(folder), "hf") == 4
    shards = sorted((folder / "data").iterdir())
    assert [pq.read_metadata(shard).num_rows for shard in shards] == [most] * (4 // most) + [4 % most] * (4 % most > 0)
    assert shards[0].name == f"train-00000-of-{len(shards):05d}.parquet"
    assert [row for shard in shards for row in plain_rows(pq.read_table(shard))] == stored(local)
    card = yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])
    features = {feature["name"]: feature["dtype"] for feature in card["dataset_info"]["features"]}
    assert list(features) == TripleStore(local).schema.names
    assert (features["target_start"], features["alignment"], features["text"]) == ("int32", "float32", "string")
    assert card["dataset_info"]["splits"] == [{"name": "train", "num_examples": 4}]
    assert card["configs"][0]["data_files"] == [{"split": "train", "path": "data/train-*.parquet"}]


def test_a_dataset_is_read_by_datasets(local, tmp_path):
    datasets = pytest.importorskip("datasets")
    export(local, str(tmp_path / "triples"), "hf")
    assert len(datasets.load_dataset(str(tmp_path / "triples"), split="train", cache_dir=str(tmp_path / "cache"))) == 4


def test_a_store_without_triples_yet_is_an_empty_export(tmp_path):
    root = str(tmp_path / "store")
    plan_generate(start(root), 2)
    for kind in ("jsonl", "tsv", "hf"):
        assert export(root, str(tmp_path / kind), kind) == 0


@pytest.mark.parametrize("kind", ["jsonl", "tsv", "hf"])
def test_nothing_is_overwritten_unasked(local, tmp_path, kind):
    path = tmp_path / "out"
    export(local, str(path), kind)
    with pytest.raises(CorpusgenError, match="--overwrite"):
        export(local, str(path), kind)
    assert export(local, str(path), kind, overwrite=True) == 4
    assert everything_in(tmp_path) == ["out", "store"]


def test_a_folder_that_no_export_wrote_is_never_replaced(local, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    for kind in ("tsv", "hf"):
        with pytest.raises(CorpusgenError, match=r"chapter\.tex was not written by an export"):
            export(local, str(tmp_path / "thesis"), kind, overwrite=True)
    with pytest.raises(CorpusgenError, match="is a folder"):
        export(local, str(tmp_path / "thesis"), "jsonl", overwrite=True)
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


@pytest.mark.parametrize("kind", ["jsonl", "tsv", "hf"])
def test_what_is_interrupted_leaves_the_old_one_and_no_debris(local, tmp_path, monkeypatch, kind):
    path = tmp_path / "out"
    export(local, str(path), kind)
    before = {file: file.read_bytes() for file in [path, *path.rglob("*")] if file.is_file()}

    def one_and_then_no_more(self, columns=None, batch_size=8192, batches=CommittedTable.batches):
        yield next(batches(self, columns, batch_size))
        raise KeyboardInterrupt

    monkeypatch.setattr(CommittedTable, "batches", one_and_then_no_more)
    with pytest.raises(KeyboardInterrupt):
        export(local, str(path), kind, overwrite=True)
    assert {file: file.read_bytes() for file in [path, *path.rglob("*")] if file.is_file()} == before
    assert everything_in(tmp_path) == ["out", "store"]


@pytest.mark.parametrize("kind", ["jsonl", "tsv", "hf"])
def test_a_store_on_s3_is_exported_as_one_on_a_disk(local, s3_root, tmp_path, kind):
    small_store(s3_root)
    files = []
    for number, root in enumerate((local, s3_root)):
        path = tmp_path / str(number) / "out"
        assert export(root, str(path), kind) == 4
        files.append({file.relative_to(path): file.read_bytes() for file in [path, *path.rglob("*")] if file.is_file()})
    assert files[0] == files[1]


@pytest.mark.parametrize("put_back", [True, False])
def test_a_failure_between_the_old_and_the_new_folder_keeps_the_old(local, tmp_path, monkeypatch, put_back):
    path = tmp_path / "out"
    export(local, str(path), "tsv")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    rename = os.rename
    renamed = []

    def only_the_first(source, target):
        renamed.append(target)
        if len(renamed) == 2 or (len(renamed) > 2 and not put_back):
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", only_the_first)
    with pytest.raises(CorpusgenError, match="Input/output error"):
        export(local, str(path), "tsv", overwrite=True)
    kept = path if put_back else renamed[0]
    assert {file.name: file.read_bytes() for file in kept.iterdir()} == before
    assert everything_in(tmp_path) == sorted([kept.name, "store"])


def test_json_lines_go_to_standard_output_unless_told_otherwise(local, command):
    assert command("export", local) == command("export", local, "-o", "-")
    assert len(command("export", local, "--format", "jsonl").out.splitlines()) == 4
    for kind in ("tsv", "hf"):
        ended = command("export", local, "--format", kind)
        assert (ended.code, ended.out) == (1, "")
        assert f"--format {kind} writes a folder, not standard output; give a folder with -o" in ended.err


def test_the_command(local, tmp_path, command):
    found = command("export", local, "-o", "-")
    assert found.code == 0, found.err
    assert [json.loads(line)["target"] for line in found.out.splitlines()] == ["bank", "Spring", "bank", "bank"]
    assert command("export", local, "-o", tmp_path / "out", "--format", "tsv").out.endswith(": 4 triples\n")
    again = command("export", local, "-o", tmp_path / "out", "--format", "tsv")
    assert (again.code, again.out) == (1, "")
    assert command("export", local, "-o", "-", "--format", "hf").code == 1
    assert "only be written to local paths" in command("export", local, "-o", "s3://bucket/x").err
    assert command("export", local, "-o", tmp_path / "x", "--format", "xml").code == 2
    assert "cannot write" in command("export", local, "-o", "/proc/nothing/x").err


def test_pairs_are_exported_in_every_format(pairs, tmp_path):
    rows = open_product(pairs).to_table().to_pylist()
    assert export(pairs.url, str(tmp_path / "pairs.jsonl"), "jsonl") == len(rows)
    written = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert [row["id"] for row in written] == [row["id"] for row in rows]
    assert export(pairs.url, str(tmp_path / "tsv"), "tsv") == len(rows)
    assert everything_in(tmp_path / "tsv") == [
        f"pairs.{name}.tsv" for name in ("negative", "neighbour", "original", "positive")
    ]
    for name, text in (("original", "text"), ("positive", "positive"), ("negative", "negative")):
        lines = (tmp_path / "tsv" / f"pairs.{name}.tsv").read_text().split("\n")[:-1]
        assert lines == [f"{row['target']}\t{row[text]}" if row[text] else "" for row in rows]  # null: an empty line
    assert export(pairs.url, str(tmp_path / "hf"), "hf") == len(rows)
    card = (tmp_path / "hf" / "README.md").read_text()
    for said in (
        f"{len(rows)} pairs for word meaning in context",
        "pairs = load_dataset(",
        "- positive: the same word in another sentence of the same document; `positive[positive_start:positive_end]`",
        "- negative: the same word in another document (null in some rows); `negative[",
        "- neighbour: another word of the same sentence (null in some rows); `text[neighbour_start:neighbour_end]`",
        "| `overlap` | float32 | share of the words",
    ):
        assert said in card, said
    assert "triple" not in card


def test_of_several_tables_the_first_is_exported_or_the_one_asked_for(both, tmp_path, command):
    assert export(both.url, str(tmp_path / "a"), "jsonl") == TripleStore(both).num_rows
    ended = command("export", both.url, "--table", "pairs", "-o", tmp_path / "b")
    assert ended.out == f"{tmp_path / 'b'}: {open_product(both, 'pairs').num_rows:,} pairs\n"
    wrong = command("export", both.url, "--table", "targets", "-o", tmp_path / "c")
    assert (wrong.code, (tmp_path / "c").exists()) == (2, False)
    assert "holds triples and pairs, not targets" in wrong.err


def test_a_recipe_of_another_package_is_exported_by_its_members(outside, tmp_path):
    rows = open_product(outside).to_table().to_pylist()
    for kind in ("jsonl", "tsv", "hf"):
        assert export(outside.url, str(tmp_path / kind), kind) == len(rows)
    assert (tmp_path / "tsv" / "pairs.first.tsv").read_text().splitlines() == [
        f"{row['first'][row['first_start'] : row['first_end']]}\t{row['first']}" for row in rows
    ]
    assert "- second; `second[second_start:second_end]`" in (tmp_path / "hf" / "README.md").read_text()


def test_files_of_triples_have_the_names_of_the_published_code():
    assert tuple(tsv_files(WORDS)) == TSV_FILES
