"""Credentials are refused where they do not belong and shown nowhere; what was downloaded is never executed."""

import ast
import logging
import pickle
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from corpusgen.config.build import BuildConfig
from corpusgen.config.loading import load_settings
from corpusgen.credentials import holds_credentials, without_credentials
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.engine.stage import Stage
from corpusgen.errors import ConfigError, CorpusgenError, StoreError
from corpusgen.store import Store
from distiller.settings import TrainSettings
from tests.testing import PROJECT

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
WITH_CREDENTIALS = [
    f"s3://AKIAIOSFODNN7EXAMPLE:{SECRET}@bucket/prefix",
    f"s3://AKIAIOSFODNN7EXAMPLE:{SECRET.replace('/', '%2F')}@bucket/prefix",
    f"https://me:{SECRET}@host/models",
    f"https://me:{SECRET}@host:8080/models",
    f"https://{SECRET.replace('/', '')}@host/models",
    f"https://bucket.s3.amazonaws.com/x?X-Amz-Credential=AKIA&X-Amz-Signature={SECRET}",
    f"s3://bucket/x?AWSAccessKeyId=AKIA&Signature={SECRET}",
    f"https://storage.googleapis.com/b/x?X-Goog-Signature={SECRET}",
    f"https://host.blob.core.windows.net/c/x?sv=2020&sig={SECRET}",
    f"https://host/x?token={SECRET}",
    f"https://host/x?a=1&access_token={SECRET}",
]
WITHOUT = ["s3://bucket/a@b", "http://host:8080/a@b", "s3://bucket/pre:fix/x", "me@host:models", "a?token=b", "s3://b"]
WITHOUT += ["https://host/x?page=2", "org/model", "/models/x@v1", "embedded:minilm", "s3://bucket/*.txt?"]


@pytest.mark.parametrize("address", WITH_CREDENTIALS)
def test_credentials_in_an_address_are_found_and_hidden(address):
    assert holds_credentials(address)
    shown = without_credentials(f"cannot reach {address} (timed out)")
    assert SECRET not in shown
    assert SECRET[:12] not in shown
    assert SECRET[-12:] not in shown
    assert shown.startswith("cannot reach ")
    assert not without_credentials(address).endswith("KEY")


@pytest.mark.parametrize("address", WITHOUT)
def test_other_addresses_are_left_alone(address):
    assert not holds_credentials(address)
    assert without_credentials(address) == address


@given(st.text())
def test_a_text_without_an_address_is_shown_as_it_is(text):
    assert "://" in text or without_credentials(text) == text


def test_errors_hide_them_on_the_way_too():
    error = StoreError(f"{WITH_CREDENTIALS[0]}: gone")
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == "s3://…@bucket/prefix: gone"


# -------------------------------------------------------------------- settings

BUILD = {"store": "out", "source": {"kind": "text", "paths": ["a.txt"]}, "masked": {"model": "m"}}
BUILD |= {"vectors": {"path": "v"}, "language": {"model": "l"}, "segmenter": {"model_dir": "s"}}
SIDE = {"backend": "transformers", "model": "t"}
BUILD |= {"translation": {"pivot": "de", "forward": SIDE, "back": SIDE}}
TRAIN = {"corpus": "c", "output": "o", "backbone": {"model": "b"}}
ADDRESSES = [
    (BuildConfig, name) for name in ("store", "masked.model", "vectors.path", "vectors.words", "language.model")
]
ADDRESSES += [(BuildConfig, name) for name in ("segmenter.model_dir", "translation.forward.model")]
ADDRESSES += [(TrainSettings, name) for name in ("corpus", "output", "backbone.model", "cache")]


@pytest.mark.parametrize(("kind", "setting"), ADDRESSES)
@pytest.mark.parametrize("address", [WITH_CREDENTIALS[0], WITH_CREDENTIALS[5]])
def test_a_setting_with_credentials_is_refused_by_name_and_not_repeated(kind, setting, address, tmp_path):
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(BUILD if kind is BuildConfig else TRAIN))
    assert load_settings(kind, tmp_path / "my.yaml")
    with pytest.raises(ConfigError) as refused:
        load_settings(kind, tmp_path / "my.yaml", [f"{setting}={address}"])
    assert f"{setting}: this address contains credentials" in str(refused.value)
    assert "AWS_ACCESS_KEY_ID" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_lists_are_looked_at_too_and_pydantic_does_not_repeat_it():
    with pytest.raises(ValidationError) as refused:
        BuildConfig.model_validate({**BUILD, "source": {"kind": "text", "paths": ["a.txt", WITH_CREDENTIALS[0]]}})
    assert "contains credentials" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("address", WITH_CREDENTIALS)
def test_commands_refuse_them_and_do_not_repeat_them(address, command, tmp_path):
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(BUILD))
    for arguments in (
        ("status", address),
        ("build", tmp_path / "my.yaml", "--set", f"store={address}"),
        ("build", tmp_path / "my.yaml", "--set", address),
        ("build", tmp_path / "my.yaml", "--set", f"seed={address}"),
        ("submit", tmp_path / "my.yaml", "--address", "http://127.0.0.1:1", "--set", f"store={address}"),
    ):
        ended = command(*arguments)
        assert ended.code in (1, 2), arguments
        assert SECRET not in ended.out + ended.err, arguments


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_with_credentials_is_refused(variable, monkeypatch):
    monkeypatch.setenv(variable, f"https://me:{SECRET}@127.0.0.1:9000")
    with pytest.raises(StoreError, match=r"https://…@127\.0\.0\.1:9000: do not put credentials") as refused:
        Store.at("s3://bucket/prefix")
    assert SECRET not in str(refused.value)


def test_what_a_library_says_of_an_address_is_hidden_in_quarantine():
    import pyarrow as pa

    class Fetch(Stage):
        name = "fetch"

        def process(self, rows):
            raise ValueError(f"{WITH_CREDENTIALS[2]} answered 500")

    (failure,) = run_stage(Fetch(), Batch(pa.table({"a": [1]}))).quarantined
    assert failure["error"] == "ValueError: https://…@host/models answered 500"


# ---------------------------------------------------------------- failing runs


def test_a_run_that_fails_on_s3_tells_no_secret(command, s3_server, s3_root, monkeypatch, tmp_path, caplog):
    (tmp_path / "text.txt").write_text("A text.\n")
    settings = {"store": f"{s3_root}/store", "source": {"kind": "text", "paths": [str(tmp_path / "text.txt")]}}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(settings))
    caplog.set_level(logging.DEBUG, "corpusgen")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    token = "hf_" + "q" * 34
    monkeypatch.setenv("HF_TOKEN", token)
    secrets = [token, SECRET, "AKIAPLANTEDKEY", s3_server.secret_key, s3_server.access_key]
    said = []
    for change in (
        {"AWS_SECRET_ACCESS_KEY": SECRET},
        {"AWS_ACCESS_KEY_ID": "AKIAPLANTEDKEY"},
        {"AWS_SESSION_TOKEN": SECRET},
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
    ):
        with monkeypatch.context() as changed:
            for name, value in change.items():
                changed.setenv(name, value)
            for model in ("vectors.path=s3://bucket/v", "seed=1"):
                ended = command("build", tmp_path / "my.yaml", "--executor", "local", "--set", model)
                assert ended.code in (1, 2), ended
                said.append(ended.out + ended.err)
    text = "".join(said) + caplog.text
    assert "check AWS_SECRET_ACCESS_KEY" in text
    for secret in secrets:
        assert secret not in text


# ------------------------------------------------------------------- execution

FOLDERS = ("corpusgen", "distiller", "tools", "benchmarks")
SOURCES = [path for name in FOLDERS for path in sorted((PROJECT / name).rglob("*.py"))]
FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "joblib", "tarfile"}


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PROJECT).as_posix())
def test_no_source_reads_what_could_run_code(path):
    tree = ast.parse(path.read_text())
    imported = {
        alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {name for name in imported if name.partition(".")[0] in FORBIDDEN} <= {"pickle.PickleBuffer"}
    for name, options in calls(tree):
        assert name not in ("eval", "exec", "yaml.load", "yaml.unsafe_load", "os.system"), name
        assert "trust_remote_code" not in options
        assert options.get("allow_pickle") in (None, "False")
        assert options.get("shell") in (None, "False")
        if name == "torch.load":
            assert options["weights_only"] == "True"
        if name == "zipfile.ZipFile":
            assert path.name == "submit.py"  # which packs, and unpacks nothing


def test_array_files_with_objects_are_refused(tmp_path):
    import numpy as np

    from corpusgen.models.vectors import open_vectors

    class Sneaky:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sneaked-in",))

    np.save(tmp_path / "v.npy", np.array([[Sneaky()]], dtype=object), allow_pickle=True)
    (tmp_path / "v.txt").write_text("word\n")
    with pytest.raises(CorpusgenError, match=r"cannot map .* as a matrix"):
        open_vectors(str(tmp_path / "v.npy"))
    assert not (tmp_path / "sneaked-in").exists()


def test_weights_with_code_in_them_are_refused(tmp_path):
    import torch

    from corpusgen.models.masked_lm import MaskedPredictor
    from distiller.training.run_folder import unpacked
    from tests.testing import triple_builds as support

    class Sneaky:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sneaked-in",))

    folder = Path(support.write_masked_lm(tmp_path / "model"))
    (folder / "model.safetensors").unlink()
    torch.save({"weights": Sneaky()}, folder / "pytorch_model.bin")
    with pytest.raises(CorpusgenError, match="cannot load"):
        MaskedPredictor(str(folder))
    with pytest.raises(pickle.UnpicklingError):
        unpacked((folder / "pytorch_model.bin").read_bytes())
    assert not (tmp_path / "sneaked-in").exists()


def test_fairseqs_exception_is_stated_loudly(command):
    from corpusgen.models.translate.fairseq_compat import BEWARE

    assert "WARNING: a fairseq checkpoint is a pickle" in " ".join(command("convert-translator", "--help").out.split())
    security = (PROJECT / "docs/security.md").read_text()
    assert "fairseq" in security
    assert re.search(r"pickle", BEWARE)
