"""The commands that use a model, from a file or a line to what they print and write."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from corpusgen.errors import CorpusgenError
from distiller.cli import app
from distiller.model import WordModel
from distiller.saved import SavedModel, write_saved
from distiller.settings import TrainSettings
from distiller.word_distiller import WordDistiller
from tests.generate import support

VALIDATION = {
    "step": 10,
    "epoch": 1.0,
    "loss": 0.1,
    "cosine_positive": 0.9,
    "cosine_negative": 0.5,
    "ordered": 0.95,
    "cosine_unrelated": 0.3,
}
TEXTS = support.sentences(30, seed=4)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A saved model with random weights, on a tiny frozen one."""
    folder = tmp_path_factory.mktemp("model")
    backbone = support.write_masked_lm(folder / "backbone")
    settings = TrainSettings.model_validate(
        {"corpus": "corpora/none", "output": "runs/none", "backbone": {"model": backbone}, "heads": 4}
    )
    saved = SavedModel.of(WordModel(16, 4, seed=3), settings, [2, 3], {}, VALIDATION)
    write_saved(str(folder / "model"), saved)
    return str(folder / "model")


def command(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=True)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(texts):
    """The three ways to name a word, in turn."""
    ways = [{"word": "willows"}, None, None]
    for number, text in enumerate(texts):
        start = text.index("willows")
        by_place = [{"span": [start, start + 7]}, {"start": start, "end": start + 7}]
        yield {"id": f"s{number}", "text": text, **(ways[number % 3] or by_place[number % 3 - 1])}


def test_a_file_is_encoded_as_the_library_does(model, tmp_path):
    source, target = write_jsonl(tmp_path / "words.jsonl", rows_of(TEXTS)), tmp_path / "words.parquet"
    assert "30 words" in command("encode", model, source, "-o", target, "--output", "both")
    table = pq.read_table(target)
    assert table["id"].to_pylist() == [f"s{number}" for number in range(30)]
    wanted = WordDistiller.from_pretrained(model).encode_words(["willows"] * 30, TEXTS, output="both")
    for kind in ("meaning", "context"):
        np.testing.assert_allclose(np.array(table[kind].to_pylist()), getattr(wanted, kind), atol=1e-6)
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: expected JSON"),
        ('{"text": "x"}', "line 2: expected JSON with `text` and `word`"),
        ('{"text": "a river", "word": "willows"}', "line 2: 'willows' is not in 'a river'"),
        ('{"text": "a river", "span": [3, 99]}', "line 2: span is empty or outside the text: (3, 99)"),
        ('{"text": "", "span": [0, 0]}', "line 2: the text is empty"),
        ('{"text": 3, "span": [0, 1]}', "line 2"),
    ],
)
def test_a_bad_line_is_named_and_no_file_is_left(model, tmp_path, line, message):
    source, target = tmp_path / "words.jsonl", tmp_path / "words.parquet"
    source.write_text(json.dumps({"text": TEXTS[0], "word": "willows"}) + f"\n{line}\n")
    with pytest.raises(CorpusgenError) as refused:
        command("encode", model, source, "-o", target)
    assert message in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["words.jsonl"]


@pytest.mark.parametrize("k", [1, 5, 100])
def test_the_nearest_words_of_a_file_are_those_of_the_library(model, tmp_path, k):
    source, target = write_jsonl(tmp_path / "words.jsonl", rows_of(TEXTS)), tmp_path / "words.parquet"
    command("encode", model, source, "-o", target)
    printed = command("nearest", model, target, "--text", TEXTS[3], "--word", "willows", "-k", k).splitlines()
    assert len(printed) == min(k, 30)
    assert printed[0].startswith("1.000")
    assert "[willows]" in printed[0]
    cosines = [float(line.split()[0]) for line in printed]
    assert cosines == sorted(cosines, reverse=True)
    loaded = WordDistiller.from_pretrained(model)
    vectors = loaded.encode_words(["willows"] * 30, TEXTS)
    assert cosines == pytest.approx(np.sort(loaded.similarity(vectors[3], vectors)[0])[::-1][:k], abs=1e-3)


def test_nearest_wants_a_file_with_such_vectors(model, tmp_path):
    source, target = write_jsonl(tmp_path / "words.jsonl", rows_of(TEXTS)), tmp_path / "words.parquet"
    options = ("--text", TEXTS[0], "--word", "willows")
    with pytest.raises(CorpusgenError, match="no such file; `distiller encode` writes one"):
        command("nearest", model, target, *options)
    target.write_text("no parquet")
    with pytest.raises(CorpusgenError, match="cannot be read"):
        command("nearest", model, target, *options)
    command("encode", model, source, "-o", target)
    with pytest.raises(CorpusgenError, match="has no context vectors"):
        command("nearest", model, target, *options, "--output", "context")


def test_similarity_prints_all_kinds(model):
    printed = command("similarity", model, TEXTS[0], TEXTS[0], "--word", "willows")
    assert [line.split() for line in printed.splitlines()] == [
        ["meaning", "1.000"],
        ["context", "1.000"],
        ["baseline", "1.000"],
    ]


def test_info_tells_what_a_model_is(model):
    printed = command("info", model)
    assert "layers              2 to 3" in printed
    assert "nearer to positive  95.0% of held-out triples" in printed
    assert json.loads(command("info", model, "--json"))["dimension"] == 16
