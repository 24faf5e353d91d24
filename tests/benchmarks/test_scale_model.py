"""docs/scale.md says what the model says, and the model reckons with what the code does."""

import bz2
import re
from collections import Counter
from urllib.parse import unquote

import pytest
import yaml

from benchmarks import scale_inputs, scale_model
from benchmarks.scale_model import COMMITS_READ, DOCUMENT, INPUTS, PARTS, STAGES, given
from corpusgen.config.build import BuildConfig, load_config
from corpusgen.corpus.build import build
from corpusgen.corpus.recipes.words import GROUP_ROWS, RECIPE
from corpusgen.engine import LocalExecutor
from corpusgen.store import Store
from corpusgen.targets.sampling import default_per_word
from tests.docs.blocks import PROJECT
from tests.testing import triple_builds as support
from tests.testing.s3_server import CountingProxy

ENGLISH = load_config(PROJECT / "configs/wikipedia_en.yaml")


def test_the_document_is_up_to_date():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert scale_model.with_tables(text) == text, "run: python -m benchmarks.scale_model"


def test_every_input_is_measured_or_cited_but_for_those_that_the_document_names():
    sources = {name: source for name, (_, _, source) in INPUTS.items()}
    assert [name for name, source in sources.items() if source.startswith("assumed")] == ["big", "base"]
    for name, source in sources.items():
        assert re.search(r"`[^`]+`|\]\(https://|^a store of|^the paper", source), name
        for module, part in re.findall(r"`benchmarks\.(\w+)(?: (\w+))?`", source):
            assert (PROJECT / f"benchmarks/{module}.py").exists()
            assert not part or part in scale_inputs.PARTS


def test_a_plan_has_as_many_bytes_as_are_reckoned():
    pytest.importorskip("gensim", reason="the quickstart's packages are absent: pip install 'wicdistil[quickstart]'")
    assert scale_inputs.plan(units=1000)["plan_bytes"] == pytest.approx(given.plan_bytes, rel=0.15)


def test_the_bill_in_the_documentation_is_the_one_of_the_model():
    name, dump, text = scale_model.wikipedias()[0]
    english, number = scale_model.cost(dump, text), scale_model.number
    bill = (PROJECT / "docs/cluster.md").read_text(encoding="utf-8").partition("## Sizing")[2]
    assert name == "en"
    assert f"{number(english.core_hours)} core hours, {number(60 * english.core_hours / given.cores)} min on 16" in bill
    assert f"{number(english.serial_seconds)} s on one core" in bill
    hours = f"{number(english.translate_hours)} + {number(english.mask_hours)} GPU hours"
    assert f"{hours}, {number(scale_model.gpu_time(english))} h on 6 + 2" in bill
    costs = english.dollars
    assert f"requests ${costs['requests']:.2f}; a month of storage ${costs['a month of storage']:.2f}" in bill
    assert f"the work itself is ${costs['cores']:.2f}" in bill


def test_settings_are_those_of_the_configuration_and_of_the_cluster():
    assert given.unit_bytes == ENGLISH.source.unit_bytes
    assert given.unit_targets == ENGLISH.generate.unit_targets
    assert given.most_targets == ENGLISH.sample.size
    assert given.vocabulary == ENGLISH.sample.vocabulary
    assert given.per_word == default_per_word(ENGLISH.sample.size, ENGLISH.sample.vocabulary)
    assert given.group_rows == GROUP_ROWS
    nodes = yaml.safe_load((PROJECT / "cluster/aws.yaml").read_text())["available_node_types"]
    assert given.cores == nodes["cpu_worker"]["max_workers"] * nodes["cpu_worker"]["resources"]["CPU"]
    assert given.translators + given.maskers == nodes["gpu_worker"]["max_workers"]
    assert ENGLISH.rules.preset == "paper"


def test_sizes_are_of_100_languages_the_largest_first():
    sizes = scale_model.wikipedias()
    assert len({language for language, *_ in sizes}) == len(sizes) == 100
    assert [text for *_, text in sizes] == sorted((text for *_, text in sizes), reverse=True)


def test_a_sum_of_builds_costs_as_much_as_they_do():
    one, two = (scale_model.cost(*sizes[1:]) for sizes in scale_model.wikipedias()[:2])
    assert (one + two).units == one.units + two.units
    assert sum((one + two).dollars.values()) == pytest.approx(sum(one.dollars.values()) + sum(two.dollars.values()))


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.01234, "0.0123"), (8.2951, "8.3"), (1234.5, "1,230"), (5.88e6, "5.88 million")]
)
def test_numbers_have_three_digits(value, text):
    assert scale_model.number(value) == text


def write_dump(client, bucket: str, folder: str, streams: int) -> None:
    """A multistream dump of some pages a stream, with its index."""
    dump, index = bz2.compress(b"<mediawiki>\n"), ""
    for number in range(streams):
        index += f"{len(dump)}:{number}:T{number}\n"
        text = " ".join(support.sentences(25, seed=number))
        revision = f"<revision><id>1</id><text>{text}</text></revision>"
        dump += bz2.compress(
            f"<page>\n<title>T{number}</title><ns>0</ns><id>{number}</id>{revision}\n</page>\n".encode()
        )
    name = f"{folder}/wiki-pages-articles-multistream"
    client.put_object(Bucket=bucket, Key=f"{name}.xml.bz2", Body=dump)
    client.put_object(Bucket=bucket, Key=f"{name}-index.txt.bz2", Body=bz2.compress(index.encode()))


def what_for(method: str, url: str) -> str:
    """`GET harvest/parts` and the like."""
    path, _, query = url.partition("?")
    if "list-type" in query:
        return f"LIST {'/'.join(unquote(re.search('prefix=([^&]*)', query)[1]).strip('/').split('/')[-2:])}"
    return f"{method} {'/'.join(path.split('/')[-3:-1])}"


@pytest.mark.slow
def test_a_build_makes_the_requests_that_are_reckoned(s3_server, s3_bucket, s3_root, tmp_path, monkeypatch):
    folder = s3_root.rpartition("/")[2]
    write_dump(s3_server.client(), s3_bucket, f"{folder}-source", streams=12)
    settings = support.settings(tmp_path, store=s3_root) | {
        "source": {"kind": "mediawiki", "paths": [f"{s3_root}-source/*.xml.bz2"], "unit_bytes": 1},
        "language": {},
        "sample": {"size": 100, "vocabulary": 60},
    }
    config = BuildConfig.model_validate(settings)
    with CountingProxy(s3_server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        build(config, LocalExecutor())
        made = Counter(what_for(*request) for request in proxy.requests)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    store = Store.at(s3_root)
    plans = {name: store.pass_store(name).plan() for name in RECIPE.passes}
    units = {name: len(plan.units) for name, plan in plans.items()}
    put, get = scale_model.requests(units)

    assert units["harvest"] == 12
    for name, plan in plans.items():
        assert made[f"PUT {name}/commits"] == units[name]
        assert made[f"GET {name}/commits"] == COMMITS_READ[name] * units[name], name
        assert made[f"LIST {name}/commits"] == COMMITS_READ[name] + 1, name
        assert len(plan.tables) == PARTS[name] - (name == "generate")  # no paraphrases here
        committed = [len(commit.parts) for commit in store.pass_store(name).commits()]
        assert made[f"PUT {name}/parts"] == sum(committed) <= PARTS[name] * units[name]
        assert len(RECIPE.passes[name].make(config, store).stages) == STAGES[name] - 2 * (
            name == "generate"
        )  # nor a round trip
    assert sum(made[f"GET {name}/parts"] for name in ("harvest", "candidates", "sample")) <= get["parts"]
    assert (
        made[f"GET {s3_bucket}/{folder}-source"] + made[f"HEAD {s3_bucket}/{folder}-source"] <= get["source"] + 8
    )  # planning looks at the dump and at its index
    # What is left does not grow with the units: plans, events, the corpus, tables that are read as a whole.
    assert made.total() - sum(put.values()) - sum(get.values()) < 80
