"""Files of models and runs with anything in them: an error that the user can act on, or it works; never a traceback."""

import copy
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corpusgen.errors import CorpusgenError
from distiller.cli.app import app
from distiller.inference.word_distiller import WordDistiller
from distiller.training.report import RunFacts, to_html
from distiller.training.run_folder import RunFolder
from distiller.words.saved import CARD, CONFIG, WEIGHTS, load_saved
from tests.distiller.support import made_features
from tests.distiller.training.report.support import evaluated, finish, train
from tests.testing.word_models import RIVER, TEXT

MISSING = object()
VALUES = [
    *(MISSING, None, True, False, 0, 1, -1, 3, 10**6, 10**12, 10**40, -(10**40), 0.5, -0.5, 1e300, 1e-300),
    *(float("nan"), float("inf"), float("-inf"), "", "x", "1", "\0", "\ud800", "../..", "s3://", "é" * 1000),
    *([], {}, [None], [1], [1, 2, 3], [4, 3], ["a", "b"], [[1, 2], [3, 4]], {"a": 1}, {"": {"": []}}, [[], []]),
]
RUBBISH = [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, bytes(100), b"1" * 9999]


def keys_in(content, keys=()):
    """The paths of all values in a nested structure, the structure itself left out."""
    if keys:
        yield keys
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield from keys_in(content[key], (*keys, key))


def changed(content, keys, value):
    content = copy.deepcopy(content)
    within = content
    for key in keys[:-1]:
        within = within[key]
    if value is MISSING:
        del within[keys[-1]]
    else:
        within[keys[-1]] = value
    return json.dumps(content).encode()


def mutations(content):
    """What a file would be with each of its values changed to each of many others, and rubbish."""
    yield from ((("rubbish",), content) for content in RUBBISH)
    for keys in keys_in(content):
        for value in VALUES:
            yield (*keys, value), changed(content, keys, value)


def works_or_is_explained(act):
    try:
        act()
    except CorpusgenError:
        return False
    return True


# --- models ---


def test_a_model_whose_configuration_says_anything_loads_or_is_refused(copied):
    (copied / CARD).unlink()  # made again of what the configuration says
    before = json.loads((copied / CONFIG).read_text())
    assert len(list(keys_in(before))) > 40

    def load():
        saved = load_saved(str(copied))
        saved.word_model()
        saved.backbone_settings(None, "auto", None)

    outcomes = set()
    for change, content in mutations(before):
        (copied / CONFIG).write_bytes(content)
        try:
            outcomes.add(works_or_is_explained(load))
        except Exception as error:
            raise AssertionError(f"{change}: {error!r}") from error
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("layers",), [4, 3]),
        (("layers",), [3, 99]),
        (("layers", 0), -1),
        (("heads",), 5),
        (("dimension",), 10**6),
        (("dropout",), 1.0),
        (("backbone", "model"), "\0"),
        (("backbone", "model"), 7),
        (("backbone", "sha256"), "x"),
        (("validation", "loss"), None),
        (("validation", "ordered"), float("nan")),
        (("training", "negatives"), "yes"),
        (("training",), []),
        (("weights_sha256",), 5),
    ],
)
def test_what_is_wrong_with_a_configuration_is_named(copied, keys, value):
    before = json.loads((copied / CONFIG).read_text())
    (copied / CONFIG).write_bytes(changed(before, keys, value))
    with pytest.raises(CorpusgenError) as refused:
        WordDistiller.from_pretrained(str(copied)).encode(TEXT, RIVER)
    named = "layers 3 to 99" if value == [3, 99] else "frozen model" if value in ("\0", "x") else keys[0]
    assert named in str(refused.value)
    shown = CliRunner().invoke(app, ["info", str(copied)])
    assert shown.exception is None or isinstance(shown.exception, CorpusgenError)


def test_a_model_with_all_that_it_needs_and_more_is_shown(copied):
    before = json.loads((copied / CONFIG).read_text())
    (copied / CONFIG).write_text(json.dumps({**before, "added": {"by": "a later version"}}))
    shown = CliRunner().invoke(app, ["info", str(copied)])
    assert shown.exit_code == 0, shown.exception
    assert "layers              3 to 4" in shown.output


def test_a_card_of_any_bytes_is_read(copied):
    (copied / CARD).write_bytes(b"\xff\xfe card")
    assert load_saved(str(copied)).card.endswith(" card")


# --- damage to weights ---


def test_no_flipped_bit_of_the_weights_is_loaded(copied):
    data = (copied / WEIGHTS).read_bytes()
    for index in range(0, len(data), len(data) // 60):
        damaged = bytearray(data)
        damaged[index] ^= 1 << index % 8
        (copied / WEIGHTS).write_bytes(damaged)
        with pytest.raises(
            CorpusgenError, match=f"{WEIGHTS} is damaged: .* download the model again, or, in the folder"
        ):
            load_saved(str(copied))


def test_a_model_of_an_earlier_version_loads_and_gets_a_hash_when_it_is_saved_again(copied, tmp_path):
    config = json.loads((copied / CONFIG).read_text())
    sha256 = config.pop("weights_sha256")
    (copied / CONFIG).write_text(json.dumps(config))
    WordDistiller.from_pretrained(str(copied)).save_pretrained(str(tmp_path / "again"))
    assert json.loads((tmp_path / "again" / CONFIG).read_text())["weights_sha256"] == sha256


# --- runs ---


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A whole run with its model and scores, resumed once."""
    features = made_features(tmp_path_factory.mktemp("features"))
    output = str(tmp_path_factory.mktemp("runs") / "mine")
    train(output, features, until=8)
    run = train(output, features)
    finish(run, features)
    evaluated(run)
    return run


@pytest.fixture
def spoilt(run, tmp_path):
    return Path(shutil.copytree(run.url, tmp_path / "run"))


def report(folder):
    return to_html(RunFacts.read(RunFolder(str(folder))))


def outcomes_of_reports(folder, name, changes):
    """Write each content to a file of the run; return whether reports were made (True) or refused (False)."""
    outcomes = set()
    for change, content in changes:
        (folder / name).write_bytes(content)
        try:
            outcomes.add(works_or_is_explained(lambda: report(folder)))
        except Exception as error:
            raise AssertionError(f"{change}: {error!r}") from error
    return outcomes


@pytest.mark.parametrize("name", ["settings.json", "progress.json"])
def test_a_report_on_anything_is_made_or_refused(spoilt, name):
    before = json.loads((spoilt / name).read_text())
    if name == "progress.json":
        before["stretches"] = [stretch[:2] for stretch in before["stretches"]]  # enough to spoil each kind of value
    assert outcomes_of_reports(spoilt, name, mutations(before)) == {True, False}


def cells_changed(table):
    lines = [line.split(",") for line in table.splitlines()]
    for row in (0, 1, len(lines) - 1):
        for column in range(len(lines[0])):
            for value in ("", "x", "nan", "inf", "-1", "0", "1e300", "-1e300", "1e-300", '"', "#", "1,2", "\n", "é"):
                others = copy.deepcopy(lines)
                others[row][column] = value
                yield "\n".join(map(",".join, others)).encode()
    yield from (b"", b"\n", lines[0][0].encode(), ",".join(lines[0]).encode(), b"\xff\xfe", table[:-30].encode())
    yield "\n".join(",".join(line[:-1]) for line in lines).encode()


@pytest.mark.parametrize("name", ["steps.csv", "validations.csv"])
def test_a_report_on_any_table_is_made_or_refused(spoilt, name):
    contents = cells_changed((spoilt / name).read_text())
    assert outcomes_of_reports(spoilt, name, ((content, content) for content in contents)) == {True, False}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("progress.json", b'{"step": 3}', "progress.json is damaged: best_step: Field required; remove it: the next"),
        ("steps.csv", b"step,loss\n1,x", "steps.csv is damaged: "),
        ("validations.csv", b"step,loss\n1,2", "validations.csv is damaged: it has no column cosine_negative"),
        ("settings.json", b"[]", "settings.json is damaged (not a mapping of keys to values); choose another `output`"),
    ],
)
def test_the_damaged_file_of_a_run_is_named_with_what_to_do(spoilt, name, content, message):
    (spoilt / name).write_bytes(content)
    with pytest.raises(CorpusgenError) as refused:
        report(spoilt)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["| a", "| \n| \n| ", "| a | b |\n", "**", "| | | |\n|---|\n| x |\n", "\xff"])
def test_a_card_with_any_evaluation_is_shown(spoilt, text):
    (spoilt / "model" / CARD).write_text(f"# card\n\n## Evaluation\n\n{text}\n", encoding="latin-1")
    assert "</html>" in report(spoilt)
