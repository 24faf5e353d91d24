"""A model of large builds: what an English Wikipedia and one in 100 languages take, and where the design would break.

    python -m benchmarks.scale_model        # puts the tables into docs/scale.md

Every figure follows from `INPUTS`, and each of these says where it comes from. How large the Wikipedias are is in
wikipedia_sizes.csv.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace

DOCUMENT = Path(__file__).parents[1] / "docs/scale.md"
SIZES = Path(__file__).with_name("wikipedia_sizes.csv")
MIB, MB, GB = 2**20, 1e6, 1e9

_STORE = "a store of 20,532 triples"
_DUMP = "`benchmarks.scale_inputs dump`: 1.7 MB of an English dump"
_PLAN = "`benchmarks.scale_inputs plan`: a million units"
_FETCH = "`benchmarks.scale_inputs fetch`: a million selected"
_COMMITS = "`benchmarks.scale_inputs commits`: 2,500 on the S3 server of the tests"
_CTRANSLATE2 = "[CTranslate2](https://github.com/OpenNMT/CTranslate2): OPUS-MT, float16, g5.xlarge"
_WMT19 = "[227](https://huggingface.co/facebook/wmt19-de-en/blame/main/config.json)"
_OPUS_MT = "[44](https://huggingface.co/Xenova/opus-mt-en-de/blame/main/config.json)"
_BIG = f"assumed: as {_WMT19} to {_OPUS_MT} million weights of their layers"
_PIECES = "`benchmarks.scale_inputs pieces`: MiniLM's, in 6,549 sentences of the quickstart"
_TRITON = (
    "https://github.com/NVIDIA/DeepLearningExamples/blob/master/PyTorch/LanguageModeling/BERT/triton/large/README.md"
)
_BERT = f"[NVIDIA]({_TRITON}): 54.4 × 384, float16, T4"
_X2STATIC = "[Gupta & Jaggi 2021](https://aclanthology.org/2021.acl-long.408/)"
_BERT_SIZES = "[its authors](https://github.com/google-research/bert)"
_EC2 = "[us-east-1, June 2026](https://www.factualminds.com/blog/amazon-ec2-on-demand-pricing-instance-families-2026/)"
_M6I = "[us-east-1](https://c3x.dev/blog/m5-vs-m6i-vs-m7i-cost-performance): m6i.xlarge, a quarter of it, for 0.192"
_REQUESTS = "[S3 Standard](https://c3x.dev/blog/s3-request-fees-explained)"
_STORAGE = "[S3 Standard, us-east-1](https://c3x.dev/blog/s3-storage-class-comparison)"
_EGRESS = "[to the internet](https://www.egresscost.com/aws), after the 100 GB a month that are free"
_S3 = "[AWS](https://repost.aws/knowledge-center/http-5xx-errors-s3)"
_CONFIG = "`configs/wikipedia_en.yaml`"

INPUTS: dict[str, tuple[float, str, str]] = {
    "unit_bytes": (32 * MIB, "bytes of wikitext in a unit of harvest", _CONFIG),
    "reckoned": (4, "bytes of wikitext reckoned for one of bz2", "`corpusgen/sources/multistream.py`"),
    "group_rows": (100_000, "sentences in a unit of candidates and sample", "`corpusgen/corpus/recipes/words.py`"),
    "unit_targets": (2000, "targets in a unit of generate", _CONFIG),
    "most_targets": (1e6, "targets of a language, at most", _CONFIG),
    "vocabulary": (50_000, "words of the vocabulary", _CONFIG),
    "per_word": (80, "candidates kept of a word", "`corpusgen/targets/sampling.py`: 4 × targets ÷ vocabulary"),
    "cores": (256, "cores of the cluster", "`cluster/aws.yaml`: 16 nodes with 16 each"),
    "translators": (6, "GPUs that translate", "`docs/cluster.md`"),
    "maskers": (2, "GPUs with the masked LM", "`docs/cluster.md`"),
    "sampled": (0.4, "targets of a sentence, where sentences are few", f"{_STORE}: 50,000 of 124,829"),
    "xml": (3.59, "bytes of XML in one of bz2", _DUMP),
    "read_mbs": (7.4, "MB of XML unpacked and parsed in a second of a core", _DUMP),
    "clean_mbs": (17, "MB of wikitext cleaned in a second of a core", "`benchmarks.wikitext`: 17 to 22"),
    "text_mbs": (2.5, "MB of text made sentences in a second of a core", "`benchmarks.harvest`: 2.5 to 3.0"),
    "sentences": (3054, "sentences kept of a MB of text", f"{_STORE}: 124,829 of 40.87 MB"),
    "words": (23.1, "words in a sentence", _STORE),
    "types": (100_545, "different words among 2.88 million", _STORE),
    "heaps": (0.572, "exponent by which they grow with the text", f"{_STORE}: from 0.36 to 2.88 million words"),
    "sketch_us": (33, "µs of a core to sketch a sentence", f"{_STORE}: 4.1 s"),
    "fetch_s": (0.35, "seconds of a core to fetch a part's targets", _FETCH),
    "merge_us": (1.35, "µs of a core to merge a word of a unit's counts", f"{_STORE}: 466,334 in 0.63 s"),
    "select_us": (2.8, "µs of a core for a candidate that is selected from", f"{_STORE}: 549,912 in 1.56 s"),
    "sentence_bytes": (142, "bytes of a sentence in a part", _STORE),
    "count_bytes": (6.9, "bytes of a counted word in a part", _STORE),
    "candidate_bytes": (18.6, "bytes of a candidate in a part", _STORE),
    "target_bytes": (156, "bytes of a target in a part", _STORE),
    "triple_bytes": (430, "bytes of a triple in a part", _STORE),
    "reject_bytes": (290, "bytes of a rejected target in a part", _STORE),
    "commit_bytes": (1362, "bytes of a commit", _STORE),
    "kept": (0.93, "triples of a target by the paper's rules", "the paper: 929,265 of a million"),
    "moved_xml": (3.69, "bytes from stage to stage for one of XML", _DUMP),
    "moved_target": (2300, "bytes from stage to stage for a target", _STORE),
    "plan_bytes": (247, "bytes of a unit in `plan.json`", _PLAN),
    "plan_memory": (2060, "bytes of the driver's memory for a planned unit", _PLAN),
    "plan_us": (23, "µs to plan a unit, write it and read it again", _PLAN),
    "driver_ms": (2.0, "ms of the driver's core for a unit in a stage", "`benchmarks.scaling`, 64 actors"),
    "get_ms": (2.8, "ms of the driver's core to read a commit on S3", _COMMITS),
    "candidate_memory": (240, "bytes of memory for a candidate kept", "`benchmarks.harvest`: 1.08 GB for 4 million"),
    "type_memory": (267, "bytes of memory for a different word", "`benchmarks.scale_inputs words`: 4 million"),
    "tokens_gpu": (9297, "tokens translated in a second of a GPU, base model", _CTRANSLATE2),
    "big": (5.1, "work of WMT19's large model for a token, in base models", _BIG),
    "pieces": (1.29, "word pieces of a word", _PIECES),
    "bert_gpu": (20_900, "tokens through BERT-large in a second of a GPU, PyTorch", _BERT),
    "slots": (2, "slots that the masked LM is asked about, for a target", "`corpusgen/corpus/triples/`, at most"),
    "static_words": (1.28e9, "words of English Wikipedia's paragraphs", _X2STATIC),
    "static_sentences": (54e6, "sentences of them", _X2STATIC),
    "static_vocabulary": (750_000, "words with a static vector", _X2STATIC),
    "static_dimension": (768, "dimensions of BERT-base", _X2STATIC),
    "paragraph_words": (
        0.73e6,
        "words of paragraphs made in a second of a core",
        "`docs/paragraphs.md`: 5.8 million in 8 s",
    ),
    "base": (
        3.55,
        "tokens of BERT-base for one of BERT-large, as weights of their layers",
        f"assumed: as 302 to 85 million weights, {_BERT_SIZES}",
    ),
    "kept_targets": (
        0.43,
        "targets of a word after sub-sampling",
        "Zipf's law over 750,000 words, `x2static.threshold` 5e-6: 0.39 to 0.46",
    ),
    "x2static_rate": (
        115_000,
        "targets trained in a second of a core",
        "`benchmarks.x2static`: 750,000 words, 768 dimensions",
    ),
    "x2static_drawing": (15, "times as fast: drawing targets and sorting them", "`benchmarks.x2static`"),
    "skipgram_rate": (
        38_000,
        "words trained in a second of a core",
        "`benchmarks.static_methods`: 384 dimensions to 300",
    ),
    "gpu_price": (1.006, "$ for an hour of a GPU (g5.xlarge, on demand)", _EC2),
    "core_price": (0.048, "$ for an hour of a core (m6i.4xlarge, on demand)", _M6I),
    "put_price": (5e-6, "$ for a PUT or LIST", _REQUESTS),
    "get_price": (4e-7, "$ for a GET or HEAD", _REQUESTS),
    "month_price": (0.023, "$ for a GB stored for a month", _STORAGE),
    "egress_price": (0.09, "$ for a GB that leaves the region", _EGRESS),
    "head_memory": (16 * GB, "bytes of memory of the head", "`cluster/aws.yaml`: m6i.xlarge"),
    "node_memory": (64 * GB, "bytes of memory of a CPU node", "`cluster/aws.yaml`: m6i.4xlarge"),
    "put_limit": (3500, "PUTs that a prefix takes in a second", _S3),
}
given = SimpleNamespace(**{name: value for name, (value, _, _) in INPUTS.items()})
STAGES = {"harvest": 5, "vocabulary": 1, "candidates": 1, "selection": 1, "sample": 1, "generate": 4}
COMMITS_READ = {"harvest": 4, "vocabulary": 6, "candidates": 2, "selection": 3, "sample": 2, "generate": 1}
"""How often a build reads a commit: at the end of its pass, and for each later pass that is planned from it."""
PARTS = {"harvest": 2, "vocabulary": 1, "candidates": 1, "selection": 1, "sample": 1, "generate": 3}
"""Tables of a pass, with a round trip: a unit has so many parts."""


@dataclass(frozen=True)
class Cost:
    """What a build takes; that of several is the sum."""

    units: float = 0
    sentences: float = 0
    targets: float = 0
    triples: float = 0
    put: float = 0
    get: float = 0
    stored: float = 0
    moved: float = 0
    triple_bytes: float = 0
    core_hours: float = 0
    translate_hours: float = 0
    mask_hours: float = 0
    serial_seconds: float = 0
    driver_seconds: float = 0
    reading_seconds: float = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Cost)))

    @property
    def dollars(self) -> dict[str, float]:
        return {
            "cores": self.core_hours * given.core_price,
            "GPUs": (self.translate_hours + self.mask_hours) * given.gpu_price,
            "requests": self.put * given.put_price + self.get * given.get_price,
            "a month of storage": self.stored / GB * given.month_price,
            "egress": self.triple_bytes / GB * given.egress_price,
        }


def units_of(dump: float, text: float) -> tuple[dict[str, int], float, float]:
    """Units of each pass, sentences and targets for a dump of so many bytes with so many bytes of text."""
    harvest = math.ceil(dump * given.reckoned / given.unit_bytes)
    sentences = text / MB * given.sentences
    parts_in_group = math.ceil(given.group_rows / (sentences / harvest))
    groups = math.ceil(harvest / parts_in_group)
    targets = min(given.most_targets, given.sampled * sentences)
    generate = math.ceil(targets / given.unit_targets)
    units = {"harvest": harvest, "vocabulary": 1, "candidates": groups, "selection": 1, "sample": groups}
    return {**units, "generate": generate}, sentences, targets


def requests(units: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """PUTs (and LISTs) and GETs (and HEADs) of a build whose source is on S3 too, but for what does not grow."""
    put = {
        "parts": sum(PARTS[name] * count for name, count in units.items()),
        "commits": sum(units.values()),
        "listings": sum((COMMITS_READ[name] + 1) * math.ceil(count / 1000) for name, count in units.items()),
    }
    get = {
        "source": 5 * units["harvest"],  # HEADs before and after, to see that it is the planned one; GETs to read it
        "commits": sum(COMMITS_READ[name] * count for name, count in units.items()),
        # Counts once and sentences twice; candidates once; targets by units that begin and end anywhere in a part.
        "parts": 3 * units["harvest"] + units["candidates"] + units["sample"] + units["generate"],
    }
    return put, get


def cost(dump: float, text: float) -> Cost:
    """Of one build."""
    units, sentences, targets = units_of(dump, text)
    put, get = requests(units)
    xml, harvest = dump * given.xml, units["harvest"]
    triples = targets * given.kept
    candidates = min(2 * given.per_word * given.vocabulary, sentences * given.words)
    counted = harvest * different_words(sentences / harvest)
    part_bytes = (
        sentences * given.sentence_bytes
        + counted * given.count_bytes
        + candidates * given.candidate_bytes
        + targets * given.target_bytes
        + triples * given.triple_bytes
        + (targets - triples) * given.reject_bytes
    )
    tokens = targets * given.words * given.pieces
    reading = sum(COMMITS_READ[name] * count for name, count in units.items()) * given.get_ms / 1000
    tasks = sum(STAGES[name] * count for name, count in units.items())
    return Cost(
        units=sum(units.values()),
        sentences=sentences,
        targets=targets,
        triples=triples,
        put=sum(put.values()),
        get=sum(get.values()),
        stored=part_bytes + sum(units.values()) * (given.commit_bytes + given.plan_bytes),
        moved=xml * given.moved_xml + targets * given.moved_target,
        triple_bytes=triples * given.triple_bytes,
        core_hours=(
            harvest * unit_seconds(xml / harvest, text / harvest)
            + sentences * given.sketch_us / 1e6
            + harvest * given.fetch_s
        )
        / 3600,
        translate_hours=2 * tokens / (given.tokens_gpu / given.big) / 3600,
        mask_hours=given.slots * tokens / given.bert_gpu / 3600,
        serial_seconds=(counted * given.merge_us + candidates * given.select_us) / 1e6,
        driver_seconds=tasks * given.driver_ms / 1000 + reading + sum(units.values()) * given.plan_us / 1e6,
        reading_seconds=reading,
    )


def unit_seconds(xml: float, text: float) -> float:
    """Of a core, for a unit of harvest."""
    return xml / MB / given.read_mbs + xml / MB / given.clean_mbs + text / MB / given.text_mbs


def different_words(sentences: float) -> float:
    """Heaps' law through what was measured."""
    return given.types * (sentences * given.words / 2.88e6) ** given.heaps


# --------------------------------------------------------------------- tables


def wikipedias() -> list[tuple[str, float, float]]:
    """Language, bytes of the dump and of its text, the largest first."""
    with SIZES.open() as file:
        rows = list(csv.DictReader(file))
    return [(row["language"], float(row["dump_mib"]) * MIB, float(row["text_mib"]) * MIB) for row in rows]


def input_table() -> str:
    return table(("", "", "from"), [(f"{value:,.12g}", what, source) for value, what, source in INPUTS.values()])


def cost_table() -> str:
    english, *others = wikipedias()
    one = cost(*english[1:])
    many = sum((cost(*sizes[1:]) for sizes in others), one)
    rows: list[tuple[str, Callable[[Cost], str]]] = [
        ("sentences", lambda c: number(c.sentences)),
        ("targets", lambda c: number(c.targets)),
        ("triples", lambda c: number(c.triples)),
        ("units, each with one commit", lambda c: number(c.units)),
        ("PUT and LIST", lambda c: number(c.put)),
        ("GET and HEAD", lambda c: number(c.get)),
        ("stored", lambda c: f"{number(c.stored / GB)} GB"),
        ("from stage to stage", lambda c: f"{number(c.moved / GB)} GB"),
        ("core hours", lambda c: number(c.core_hours)),
        ("GPU hours, translation", lambda c: number(c.translate_hours)),
        ("GPU hours, masked LM", lambda c: number(c.mask_hours)),
        ("on 256 cores", lambda c: f"{number(60 * c.core_hours / given.cores)} min"),
        ("on 6 + 2 GPUs", lambda c: f"{number(gpu_time(c))} h"),
        ("one core for the passes of one unit", lambda c: f"{number(c.serial_seconds)} s"),
        ("egress, if the triples leave", lambda c: f"{number(c.triple_bytes / GB)} GB"),
        ("the driver's core", lambda c: f"{number(c.driver_seconds)} s"),
        ("of these to read commits again", lambda c: f"{number(c.reading_seconds)} s"),
        *((f"$ for {name}", lambda c, name=name: f"{c.dollars[name]:,.2f}") for name in one.dollars),
    ]
    return table(("", "English", "100 languages"), [(name, show(one), show(many)) for name, show in rows])


def gpu_time(build: Cost) -> float:
    """Both stages at once: the slower one counts."""
    return max(build.translate_hours / given.translators, build.mask_hours / given.maskers)


def limit_table() -> str:
    """The number at which each part of the design gives way, the first of them first."""
    _, dump, text = wikipedias()[0]
    units, _, _ = units_of(dump, text)
    seconds = unit_seconds(dump * given.xml / units["harvest"], text / units["harvest"])
    units_per_second = 1000 / (STAGES["harvest"] * given.driver_ms)
    again = COMMITS_READ["harvest"] * given.get_ms / 1000
    planned = given.head_memory / 2 / given.plan_memory
    candidates = given.node_memory * 0.75 / given.candidate_memory
    types = given.node_memory * 0.75 / given.type_memory
    rows = [
        (
            "one driver reads the commits of harvest four times",
            f"{number(again * 1000)} ms a unit",
            f"{number(seconds / again)} cores, where it takes as long as harvest itself",
            "larger units; or keep what was read from pass to pass",
        ),
        (
            "one driver dispatches",
            f"{number(units_per_second)} units of harvest a second",
            f"{number(units_per_second * seconds)} cores, with units of {number(seconds)} core seconds",
            "larger `source.unit_bytes`: four times as large, four times as many cores",
        ),
        (
            "the plan is in the driver's memory",
            f"{number(given.plan_memory)} bytes a unit",
            f"{number(planned)} units ({number(planned * given.unit_bytes / 1e12)} TB) in half of the head's 16 GB",
            "a larger head, larger units",
        ),
        (
            "one worker selects",
            f"{number(given.candidate_memory)} bytes for each of 4 × targets",
            f"{number(candidates / 4)} targets in three quarters of a node's 64 GB",
            "several stores with different seeds, `corpusgen merge`",
        ),
        (
            "one worker merges the counts",
            f"{number(given.type_memory)} bytes a different word",
            f"{number(types)} different words",
            f"not reached: all of English has {number(different_words(text / MB * given.sentences))}",
        ),
        (
            "all commits of a pass have one prefix",
            f"{number(given.put_limit)} PUTs a second",
            f"not reached: the driver's units are {number(3 * units_per_second)} PUTs",
            "",
        ),
    ]
    return table(("what", "cost", "gives way at", "remedy"), rows)


def static_table() -> str:
    """What the methods of static vectors take for the text of Gupta & Jaggi (2021)."""
    read = given.static_words * given.pieces / (given.bert_gpu * given.base) / 3600
    half = 2 * given.static_dimension  # bytes of a vector in float16
    train = given.static_words * given.kept_targets / given.x2static_rate / 3600
    workers = 16
    memory = given.static_vocabulary * (12 * given.static_dimension / workers + 20)
    rows = [
        ("text → paragraphs and vocabulary", f"{number(given.static_words / given.paragraph_words / 3600)} core hours"),
        (
            "the frozen model reads it once, for any of the methods",
            f"{number(read)} GPU hours, ${number(read * given.gpu_price)}",
        ),
        ("X2Static: vectors of sentences", f"{number(given.static_sentences * half / GB)} GB"),
        ("X2Static: an epoch of training", f"{number(train)} core hours"),
        (
            f"the same on {workers} workers, each of which draws all targets",
            f"{number(60 * train * (1 / workers + 1 / given.x2static_drawing))} min, {number(memory / GB)} GB of "
            "memory each",
        ),
        (
            "ASE: vectors, with a hundred contexts of each word",
            f"{number(given.static_vocabulary * 2 * half / GB)} GB for each layer",
        ),
        (
            "dynamic skip-gram: an epoch of training",
            f"{number(given.static_words / given.skipgram_rate / 3600)} core hours",
        ),
        (
            "dynamic skip-gram: vectors of all words, unless the frozen model makes them in training",
            f"{number(given.static_words * half / GB)} GB",
        ),
    ]
    return table(("", ""), rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


def number(value: float) -> str:
    """Three digits, and words for large ones."""
    for size, word in ((1e9, " billion"), (1e6, " million")):
        if abs(value) >= size:
            return f"{_digits(value / size)}{word}"
    return _digits(value)


def _digits(value: float) -> str:
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if digits > 0 else text


TABLES = {"inputs": input_table, "costs": cost_table, "static": static_table, "limits": limit_table}


def with_tables(document: str) -> str:
    """The document with its tables made anew: each stands between two comments with its name."""
    for name, make in TABLES.items():
        first, last = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        before, _, rest = document.partition(first)
        _, found, after = rest.partition(last)
        assert found, f"{name}: the comments around this table are missing"
        document = before + first + make() + last + after
    return document


def main() -> None:
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))


if __name__ == "__main__":
    main()
