"""YAML that was made to hang, to fill the memory or to mislead: each a message that names the file and the problem."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusgen.config.bounded_yaml import LARGEST, parse
from corpusgen.config.build import load_config
from corpusgen.config.loading import load_settings
from corpusgen.engine.time_limit import TimeLimit
from corpusgen.errors import ConfigError
from distiller.settings import TrainSettings
from tests.testing import PROJECT

CONFIGS = {path.name: path.read_text() for path in sorted((PROJECT / "configs").glob("*.yaml"))}
GOOD = "store: out\nsource:\n  kind: text\n  paths: [a.txt]\n"
BOMB = "".join(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9 if n else ['ha'] * 9)}]\n" for n in range(12))
MERGES = "".join(f"b{n}: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * 9 if n else ['{k: v}'] * 9)}]}}\n" for n in range(12))
CHAIN = f"x: [[&m0 {{a: 1}}{''.join(f', &m{n} {{<<: *m{n - 1}}}' for n in range(1, 600))}]]\nz: {{<<: *m599}}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, r"line 6: longer than 1,048,576 characters with its aliases expanded"),
        (MERGES, r"line 6: longer than 1,048,576 characters with its aliases expanded"),
        (CHAIN, r"too many aliases merge one another|unknown key"),
        ("a: " + "[" * 20_000, r"line 1: nested more than 50 levels deep"),
        ("a: " + "[" * 20_000 + "]" * 20_000, r"line 1: nested more than 50 levels deep"),
        ("{a: " * 20_000, r"nested more than 50 levels deep"),
        ("- " * 20_000, r"nested more than 50 levels deep"),
        ("a: &a [1, *a]", r"line 1: \*a refers to a value that contains it"),
        ("a: &a\n  b: *a", r"line 2: \*a refers to a value that contains it"),
        ("a: b\n" * LARGEST, r"larger than 1,048,576 bytes"),
        ("a: " + "b" * 20_000, r"line 1: a value of more than 10,000 characters"),
        ("seed: " + "9" * 5_000, r"not valid YAML: cannot read a value: .* put it in quotes"),
        ("seed: 1" + ":1" * 4_000, r"line 1: a number of more than 64 bits"),
        ("store: 2024-13-01", r"cannot read a value: month must be in 1\.\.12; if you mean a string, put it in quotes"),
        ("seed: !!int many", r"cannot read a value"),
        ("seed: 1\nstore: a\nseed: 2", r"line 3: 'seed' is given twice, first in line 1"),
        ("source:\n  kind: text\n  kind: jsonl", r"line 3: 'kind' is given twice, first in line 2"),
        ("1: a", r"line 1: the key 1 is not a string; if you mean a string, put it in quotes"),
        ("store: a\non: b", r"line 2: the key on is not a string"),
        ("~: a", r"the key ~ is not a string"),
        ("? [a, b]\n: c", r"line 1: a key is not a string"),
        ("source:\n\tkind: text", r"not valid YAML: (.|\n)*'\\t' that cannot start any token(.|\n)*line 2"),
        ("store: a\0b", r"not valid YAML: unacceptable character #x0000"),
        ('store: "a\\0b"', r"line 1: a value has a character that is not allowed"),
        ('store: "\\ud800"', r"line 1: a value has a character that is not allowed"),
        ('store: "\\U00110000"', r"not valid YAML: an invalid escape or directive"),
        ("store: !!python/object/apply:os.system [ls]", r"not valid YAML: could not determine a constructor"),
        ("store: !" + "a" * 100_000, r"not valid YAML: could not determine a constructor"),
        ("a: 1\n---\nb: 2", r"not valid YAML: expected a single document"),
        ("a: *b", r"not valid YAML: found undefined alias 'b'"),
        ("".join(f"k{n}: 1\n" for n in range(5_000)), r"k0: unknown key(.|\n)*  and 4,98\d more$"),
    ],
)
@pytest.mark.parametrize("load", [load_config, lambda path: load_settings(TrainSettings, path)])
def test_each_is_one_message_that_names_the_file_and_the_problem(tmp_path, load, text, problem):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with TimeLimit(60) as limit, pytest.raises(ConfigError, match=problem) as caught:
        limit.run(load, path)
    assert f"{path}:" in str(caught.value)
    assert len(str(caught.value)) < 10_000


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("source.paths=" + "[" * 20_000, r"^--set source\.paths=\[+…: line 1: nested more than 50 levels deep$"),
        (f"source.paths={{{BOMB.replace(chr(10), ', ')}}}", r"with its aliases expanded"),
        ("source={kind: text, kind: text}", r"line 1: 'kind' is given twice"),
        ("seed" + ".a" * 5_000 + "=1", r"^--set seed[.a]+…: more than 50 levels deep$"),
        ("seed=" + "{a: " * 40 + "1" + "}" * 40, r"seed: input should be a valid integer, not \{'a': .*…$"),
    ],
)
def test_the_same_on_the_command_line(tmp_path, override, problem):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    with pytest.raises(ConfigError, match=problem) as caught:
        load_config(path, [override])
    assert len(str(caught.value)) < 1_000


def test_what_is_no_yaml_on_the_command_line_is_text(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    assert load_config(path, ["store=[not closed"]).store == "[not closed"
    assert load_config(path, ["store=2024-13-01"]).store == "2024-13-01"


def test_anchors_aliases_and_merges_work_and_to_change_one_section_changes_no_other(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(
        GOOD + "translation:\n  pivot: de\n  forward: &one {model: there, beam: 2}\n  back: *one\n"
        "run:\n  workers:\n    read: &small {cpus: 1, max_workers: 2}\n    align: {<<: *small, max_workers: 3}\n"
    )
    config = load_config(path, ["translation.back.model=home"])
    assert [config.translation.forward.model, config.translation.back.model] == ["there", "home"]
    assert (config.run.workers["align"].cpus, config.run.workers["align"].max_workers) == (1, 3)
    assert config.run.workers["read"].max_workers == 2


def test_the_command_says_it_without_a_traceback(tmp_path):
    path = tmp_path / "bomb.yaml"
    path.write_text(BOMB)
    for module, command in (("corpusgen.cli", "build"), ("distiller.cli", "train")):
        command = [sys.executable, "-m", module, command, str(path)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 2
        assert "bomb.yaml: line 6: longer than 1,048,576 characters with its aliases expanded" in ended.stderr
        assert "Traceback" not in ended.stderr


pieces = st.one_of(
    st.sampled_from(
        ["&a ", "*a", "<<: ", "[", "]", "{", "}", ": ", "- ", "? ", "\n", "\n  ", "\t", "'", '"', "|\n", ">", "#",
         "!!int ", "!!python/name:os.system ", "!!timestamp ", "!!binary ", "!!set ", "!!omap ", "%YAML 1.1\n", "---\n",
         "...\n", "\0", "\u2028", "\u202e", "\x85", "\ufeff", "\\ud800", "\\0", "1e999", ".nan", ".inf", "0x", "0o7",
         "1:1", "~", "2024-13-01", "yes", "null", "s3://a:b@c", "store: x\n", "run: {}\n", "seed: 1\n"]
    ),
    st.text(max_size=8),
    st.integers().map(str),
)  # fmt: skip


@st.composite
def mutated(draw):
    """A config of ours, with some of it removed, doubled or replaced."""
    text = draw(st.sampled_from([GOOD, *CONFIGS.values()]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        stop = min(len(text), start + draw(st.integers(0, 30)))
        text = text[:start] + draw(st.one_of(pieces, st.just(text[start:stop] * 2))) + text[stop:]
    return text


@settings(max_examples=300)
@given(
    text=mutated(), override=st.one_of(st.none(), st.tuples(pieces, pieces).map(lambda pair: f"{pair[0]}={pair[1]}"))
)
def test_a_spoilt_config_is_taken_or_refused(tmp_path_factory, text, override):
    path = tmp_path_factory.getbasetemp() / "spoilt.yaml"
    path.write_bytes(text.encode("utf-8", "replace"))
    for kind in (load_config, lambda path, overrides: load_settings(TrainSettings, path, overrides)):
        try:
            taken = kind(path, [override] if override else [])
        except ConfigError:
            continue
        json.dumps(taken.model_dump(mode="json")).encode()


@settings(max_examples=200)
@given(st.lists(pieces, max_size=12).map("".join))
def test_what_is_shown_is_read_back_as_it_was(tmp_path_factory, store):
    path = tmp_path_factory.getbasetemp() / "shown.yaml"
    path.write_text(GOOD)
    try:
        config = load_config(path, [f"store={json.dumps(store)}"])
    except ConfigError:
        return
    path.write_bytes(config.to_yaml().encode())
    assert load_config(path) == config


def test_nothing_in_what_is_shown_is_unseen(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    config = load_config(path, ['store="a\\u202eb ü"'])
    assert "\u202e" not in config.to_yaml()
    assert parse(config.to_yaml())["store"] == "a\u202eb ü"
    assert "ü" in load_config(path, ["store=ü"]).to_yaml()
