"""fairseq as it is, and its models converted: the same text."""

import gzip
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
import torch

from corpusgen.errors import StageError
from corpusgen.models.translate import TranslatorSettings, open_translator
from corpusgen.models.translate.convert import convert_translator
from corpusgen.models.translate.subwords import BytePairs, Words
from tests.testing import PROJECT
from tests.testing.shared_data import shared_data
from tests.testing.tiny_fairseq import KNOWN, make_fairseq
from tests.testing.tiny_translators import UNSEEN, train_sentencepiece

if importlib.util.find_spec("fairseq") is None:
    pytest.skip("fairseq is absent: make setup EXTRAS=fairseq", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

TEXTS = [*KNOWN, "", next(iter(KNOWN))]
FRENCH = list(KNOWN.values())
CODES = ["#version: 0.2", "o u", "t h", "th e</w>", "i s</w>", "a n", "an d</w>", "e t</w>", "p a", "pa s</w>"]


def translate(folder, backend, texts=TEXTS, **options):
    settings = TranslatorSettings(backend=backend, model=str(folder), **{"max_tokens": 80, **options})
    return open_translator(settings, "cpu").translate(texts)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model on byte pairs."""
    folder = tmp_path_factory.mktemp("fairseq")
    (folder / "codes").write_text("\n".join(CODES))
    make_fairseq(folder / "model", BytePairs(folder / "codes"), updates=80)
    (folder / "codes").rename(folder / "model" / "bpecodes")
    return folder / "model"


def test_it_translates_the_same_before_and_after_conversion(model, tmp_path):
    convert_translator(str(model), str(tmp_path / "converted"))
    assert translate(model, "fairseq", beam=1) == [*FRENCH, "", FRENCH[0]]
    assert translate(tmp_path / "converted", "ctranslate2", beam=1) == [*FRENCH, "", FRENCH[0]]
    # A wide search in a model that knows but three sentences soon ends with pieces of them. The same ones, though.
    texts = [*TEXTS, *UNSEEN]
    assert translate(model, "fairseq", texts, beam=4) == translate(tmp_path / "converted", "ctranslate2", texts, beam=4)


def test_a_search_gives_several_translations_the_best_first(model):
    translator = open_translator(TranslatorSettings(backend="fairseq", model=str(model), max_tokens=80, beam=4), "cpu")
    several = translator.hypotheses(TEXTS, 3)
    assert [best for best, *_ in several] == translator.translate(TEXTS)
    assert max(map(len, several)) == 3
    assert all(len(set(found)) == len(found) for found in several)


def test_a_checkpoint_may_be_named_by_its_file(model, tmp_path):
    shutil.copytree(model, tmp_path, dirs_exist_ok=True)
    shutil.copy(tmp_path / "checkpoint_best.pt", tmp_path / "epoch1.pt")
    (tmp_path / "checkpoint_best.pt").rename(tmp_path / "epoch2.pt")
    with pytest.raises(StageError, match=r"several checkpoints; set `model` to one of them: epoch1.pt, epoch2.pt"):
        translate(tmp_path, "fairseq")
    convert_translator(str(tmp_path / "epoch2.pt"), str(tmp_path / "converted"))
    assert translate(tmp_path / "converted", "ctranslate2", list(KNOWN), beam=1) == FRENCH


def test_missing_dictionaries_are_named(model, tmp_path):
    shutil.copy(model / "checkpoint_best.pt", tmp_path)
    with pytest.raises(StageError, match=r"fairseq cannot load .*dictionaries dict.<language>.txt beside it"):
        translate(tmp_path, "fairseq")
    with pytest.raises(StageError, match=r"dictionaries dict.<language>.txt beside it"):
        convert_translator(str(tmp_path), str(tmp_path / "converted"))


class Sneaky:
    """Would run a command when it is loaded, if loading were not safe."""

    def __reduce__(self):
        return (os.system, ("touch sneaked-in",))


def test_a_checkpoint_cannot_run_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_fairseq(tmp_path / "model", Words(), old=True, extra_state={"meter": Sneaky()})
    with pytest.raises(StageError, match=r"it contains posix.system, which is neither weights nor settings"):
        translate("model", "fairseq")
    with pytest.raises(
        StageError, match=r"it contains posix.system, .*RUNS ANY CODE IN THE FILE.*state\['extra_state'\] = {}"
    ):
        convert_translator("model", "converted")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    # The remedy that is named works, for those who trust it.
    state = torch.load("model/checkpoint_best.pt", weights_only=False)
    state["extra_state"] = {}
    torch.save(state, "model/checkpoint_best.pt")
    assert translate("model", "fairseq", ["job"]) != [""]


def test_settings_in_a_checkpoint_cannot_run_code(tmp_path, monkeypatch, caplog):
    """fairseq evaluates some of them; as literals they do no harm."""
    monkeypatch.chdir(tmp_path)
    make_fairseq(tmp_path / "model", Words(), old=True)
    state = torch.load("model/checkpoint_best.pt", weights_only=False)
    state["args"].adaptive_softmax_cutoff = "__import__('os').system('touch sneaked-in') or [1]"
    torch.save(state, "model/checkpoint_best.pt")
    with pytest.raises(StageError, match="malformed node or string"):
        translate("model", "fairseq")
    with pytest.raises(StageError, match="malformed node or string"):
        convert_translator("model", "converted")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    # And whoever loads one is told what it is.
    told = [record for record in caplog.records if "use only files that you would run as a program" in record.message]
    assert len(told) == 2
    assert all(record.levelname == "WARNING" for record in told)


@pytest.mark.slow
def test_nothing_else_changes_when_fairseq_is_imported():
    script = """
import dataclasses, logging
from corpusgen.models.translate.fairseq_compat import import_fairseq
before = dataclasses.dataclass, logging.root.level, list(logging.root.handlers)
import_fairseq()
assert before == (dataclasses.dataclass, logging.root.level, list(logging.root.handlers))
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def run_fairseq(*arguments) -> None:
    command = [sys.executable, "-m", "tests.corpusgen.models.translate.fairseq_tool", *map(str, arguments)]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.real
def test_a_model_trained_by_fairseq_translates_the_same_after_conversion(tmp_path):
    with gzip.open(shared_data("parallel/tatoeba.en-fr.tsv.gz"), "rt", encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").split("\t") for line in lines][:1200:2]
    model = tmp_path / "model"
    model.mkdir()
    spm = train_sentencepiece([text for pair in pairs for text in pair], model / "sentencepiece.bpe.model", 600)
    for column, language in enumerate(("en", "fr")):
        split = [" ".join(spm.encode(pair[column], out_type=str)) + "\n" for pair in pairs]
        (tmp_path / f"train.{language}").write_text("".join(split), encoding="utf-8")
    data = tmp_path / "data"
    text = tmp_path / "train"
    run_fairseq(
        *("preprocess", "-s", "en", "-t", "fr", "--trainpref", text, "--validpref", text, "--destdir", data),
        "--joined-dictionary",
    )
    sides = [f"--{side}-{what}" for side in ("encoder", "decoder") for what in ("embed-dim=64", "ffn-embed-dim=128")]
    sides += [f"--{side}-{what}" for side in ("encoder", "decoder") for what in ("layers=2", "attention-heads=4")]
    run_fairseq(
        *("train", data, "--save-dir", model, "--arch=transformer", "--share-all-embeddings", *sides),
        *("--optimizer=adam", "--lr=0.005", "--lr-scheduler=inverse_sqrt", "--warmup-updates=80", "--dropout=0.1"),
        *("--criterion=label_smoothed_cross_entropy", "--label-smoothing=0.1", "--max-tokens=1000"),
        *("--max-update=400", "--cpu", "--disable-validation", "--no-epoch-checkpoints", "--save-interval=1000"),
    )
    for language in ("en", "fr"):
        shutil.copy(data / f"dict.{language}.txt", model)
    with pytest.raises(StageError, match="set source and target if the checkpoint does not name them"):
        translate(model, "fairseq")

    texts = [english for english, _ in pairs[:20]] + UNSEEN
    original = translate(model, "fairseq", texts, source="en", target="fr", max_tokens=100)
    convert_translator(str(model), str(tmp_path / "converted"), source_language="en", target_language="fr")
    converted = translate(tmp_path / "converted", "ctranslate2", texts, max_tokens=100)
    assert original == converted
    # It learnt something: whole sentences that follow from what was asked.
    assert len(set(original)) > 15
    assert sum(text[-1] in ".?!" for text in original) > 15
    # And the backend does what fairseq's own interface does.
    from fairseq.models.transformer import TransformerModel

    hub = TransformerModel.from_pretrained(
        str(model), "checkpoint_last.pt", bpe="sentencepiece", source_lang="en", target_lang="fr"
    )
    for layer in hub.models[0].encoder.layers:
        layer.can_use_fastpath = False
    assert hub.translate(texts, beam=5, unkpen=float("inf"), max_len_b=100) == original
