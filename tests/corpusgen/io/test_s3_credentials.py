"""Both S3 clients of a store, boto3's and pyarrow's, use the same credentials, and these never travel."""

import pickle

import pytest
from botocore.exceptions import NoCredentialsError

from corpusgen.io.s3 import S3Files


@pytest.fixture
def files(monkeypatch, tmp_path):
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id=key\naws_secret_access_key=secret-of-ours\n")
    return S3Files("bucket", "prefix", "http://127.0.0.1:9")


def test_the_session_and_the_client_have_the_same_credentials(files):
    assert files._session.get_credentials() is files._client._request_signer._credentials
    assert files._session.get_credentials().access_key == "key"


def test_pyarrow_is_given_them(files):
    assert files._arrow.region == "eu-central-1"


def test_without_credentials_pyarrow_does_not_go_looking_for_some(files, tmp_path):
    (tmp_path / "credentials").unlink()
    with pytest.raises(NoCredentialsError):
        _ = files._arrow


def test_a_pickled_store_holds_none(files):
    assert files._client.meta.region_name == "eu-central-1"
    data = pickle.dumps(files)
    assert b"secret-of-ours" not in data
    assert pickle.loads(data)._session.get_credentials().access_key == "key"
