"""transformers and CTranslate2 on small models of each kind: they know their sentences, and agree on any others."""

import json
import shutil

import pytest
import torch
import transformers

from corpusgen.errors import StageError
from corpusgen.models.translate import TranslatorSettings, open_translator
from corpusgen.models.translate.convert import convert_translator
from tests.testing.tiny_translators import PAIRS, UNSEEN, make_m2m100, make_marian, make_nllb

FRENCH = list(PAIRS.values())
TEXTS = [*PAIRS, *UNSEEN, "", *list(PAIRS)[:2], "  "]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with the models, and each of them converted."""
    folder = tmp_path_factory.mktemp("models")
    for name, make in (("marian", make_marian), ("m2m100", make_m2m100), ("nllb", make_nllb)):
        make(folder / name)
        convert_translator(str(folder / name), str(folder / f"{name}-converted"))
    return folder


def translate(folder, backend, texts=TEXTS, **options):
    settings = TranslatorSettings(backend=backend, model=str(folder), **{"max_tokens": 60, **options})
    return open_translator(settings, "cpu").translate(texts)


@pytest.mark.parametrize(
    ("name", "languages", "wanted"),
    [
        ("marian", {}, FRENCH),
        ("m2m100", {"source": "en", "target": "fr"}, FRENCH),
        ("m2m100", {"source": "en", "target": "de"}, [text.upper() for text in PAIRS]),
        ("nllb", {"source": "eng_Latn", "target": "fra_Latn"}, FRENCH),
        ("nllb", {"source": "eng_Latn", "target": "deu_Latn"}, [text.upper() for text in PAIRS]),
    ],
)
def test_transformers_and_ctranslate2_give_the_same(models, name, languages, wanted):
    original = translate(models / name, "transformers", **languages)
    converted = translate(models / f"{name}-converted", "ctranslate2", **languages)
    assert original[: len(wanted)] == wanted
    assert original == converted
    assert original[-4:] == ["", *wanted[:2], ""]


@pytest.mark.parametrize(("folder", "backend"), [("marian", "transformers"), ("marian-converted", "ctranslate2")])
@pytest.mark.parametrize("options", [{"beam": 1}, {"batch_tokens": 1}, {"batch_tokens": 30}])
def test_neither_batches_nor_the_width_of_the_search_confuse_it(models, folder, backend, options):
    assert translate(models / folder, backend, list(PAIRS), **options) == FRENCH


@pytest.mark.parametrize(("folder", "backend"), [("marian", "transformers"), ("marian-converted", "ctranslate2")])
def test_a_search_gives_several_translations_the_best_first(models, folder, backend):
    settings = TranslatorSettings(backend=backend, model=str(models / folder), max_tokens=60, beam=4)
    translator = open_translator(settings, "cpu")
    several = translator.hypotheses(TEXTS, 3)
    assert [best for best, *_ in several][: len(FRENCH)] == FRENCH
    assert all(len(set(found)) == len(found) <= 3 for found in several)
    assert max(map(len, several)) == 3
    assert several[-4] == [""]
    assert translator.hypotheses(TEXTS[::-1], 3) == several[::-1]
    assert translator.hypotheses(TEXTS, 1) == [[text] for text in translator.translate(TEXTS)]


def test_a_translation_can_do_without_a_word(models):
    settings = TranslatorSettings(model=str(models / "marian-converted"), max_tokens=60)
    translator = open_translator(settings, "cpu")
    words = [text.split()[0] for text in FRENCH]
    without = translator.translate_without([*PAIRS, ""], [*words, "x"])
    assert without[-1] == ""
    for text, word, before in zip(without, words, FRENCH, strict=False):
        assert text != before
        assert word.lower() not in text.lower().split()
    assert translator.translate_without(list(PAIRS), ["absent"] * len(PAIRS)) == FRENCH


def test_translations_without_a_word_may_not_be_much_less_probable_than_the_best_one(models):
    settings = TranslatorSettings(model=str(models / "marian-converted"), max_tokens=60)
    translator = open_translator(settings, "cpu")
    words, texts = [text.split()[0] for text in FRENCH], list(PAIRS)
    any_ = translator.alternatives([*texts, ""], [*words, "x"], [*FRENCH, ""], 3, 1000.0)
    assert any_[-1] == []
    assert [several[0] for several in any_[:-1]] == translator.translate_without(texts, words)
    assert max(map(len, any_)) == 3
    assert translator.alternatives(texts, words, FRENCH, 3, 0.0) == [[]] * len(texts)
    best, *others = translator._log_probabilities([(texts[0], one) for one in [FRENCH[0], *any_[0]]])
    assert best < 0
    limit = best - max(others)
    assert limit > 0
    near = translator.alternatives(texts[:1], words[:1], FRENCH[:1], 3, limit + 1e-6)
    assert near == [[any_[0][others.index(max(others))]]]
    assert translator.alternatives(texts[:1], ["absent"], FRENCH[:1], 1, 1000.0) == [[]]  # the best one itself


@pytest.mark.parametrize("compute_type", ["float16", "float32"])
def test_transformers_computes_in_the_precision_that_is_asked_for(models, compute_type):
    settings = TranslatorSettings(backend="transformers", model=str(models / "marian"), compute_type=compute_type)
    translator = open_translator(settings, "cpu")
    assert {weight.dtype for weight in translator._model.parameters()} == {getattr(torch, compute_type)}
    assert translator.translate(list(PAIRS)[:1])


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has this precision")
def test_a_precision_that_the_device_lacks_is_named(models):
    with pytest.raises(StageError, match=r"CTranslate2 cannot load .*float16"):
        translate(models / "marian-converted", "ctranslate2", compute_type="float16")


def test_a_quantized_model_is_smaller_and_translates(models, tmp_path):
    convert_translator(str(models / "marian"), str(tmp_path / "int8"), "int8")
    large, small = (
        (folder / "model.bin").stat().st_size for folder in (models / "marian-converted", tmp_path / "int8")
    )
    assert small < large / 2
    assert translate(tmp_path / "int8", "ctranslate2", list(PAIRS)) == FRENCH


def test_a_model_of_many_target_languages_is_told_which_one(tmp_path):
    make_marian(tmp_path / "marian", ">>fra<<", ">>por<<")
    convert_translator(str(tmp_path / "marian"), str(tmp_path / "converted"))
    for folder, backend in (("marian", "transformers"), ("converted", "ctranslate2")):
        assert translate(tmp_path / folder, backend, list(PAIRS), target="fra") == FRENCH
        with pytest.raises(StageError, match="has 2 languages; set target to one of fra, por"):
            translate(tmp_path / folder, backend)


@pytest.mark.parametrize(("folder", "backend"), [("m2m100", "transformers"), ("m2m100-converted", "ctranslate2")])
def test_an_unknown_language_is_named_with_those_like_it(models, folder, backend):
    with pytest.raises(StageError, match="has 100 languages; set source to one of af, am"):
        translate(models / folder, backend)
    with pytest.raises(StageError, match="the model does not know the language 'frr'; set target to one of fr"):
        translate(models / folder, backend, source="en", target="frr")


def test_a_text_that_is_too_long_is_an_error_and_not_cut(models):
    for folder, backend in (("marian", "transformers"), ("marian-converted", "ctranslate2")):
        with pytest.raises(ValueError, match="exceed max_tokens, 60"):
            translate(models / folder, backend, ["Is it OK? " * 40])


def test_a_conversion_replaces_a_model_only_when_asked_to(models, tmp_path):
    output = tmp_path / "deep" / "model"
    convert_translator(str(models / "marian"), str(output))
    with pytest.raises(StageError, match="already exists"):
        convert_translator(str(models / "nllb"), str(output))
    assert translate(output, "ctranslate2", list(PAIRS)) == FRENCH
    languages = {"source": "eng_Latn", "target": "fra_Latn"}
    convert_translator(str(models / "nllb"), str(output), overwrite=True)
    assert translate(output, "ctranslate2", list(PAIRS), **languages) == FRENCH
    assert [file.name for file in output.parent.iterdir()] == ["model"]
    with pytest.raises(StageError, match="already exists and is not a converted model"):
        convert_translator(str(models / "marian"), str(output.parent), overwrite=True)
    assert [file.name for file in output.parent.iterdir()] == ["model"]


def test_a_conversion_that_fails_leaves_nothing_behind(models, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(models / "marian", broken)
    (broken / "model.safetensors").write_bytes(b"nothing")
    for overwritten in (False, True):
        with pytest.raises(StageError, match="transformers cannot load "):
            convert_translator(str(broken), str(tmp_path / "output"), overwrite=overwritten)
    with pytest.raises(StageError, match="quantization: int7: unknown; choose from int8"):
        convert_translator(str(models / "marian"), str(tmp_path / "output"), "int7")
    assert [file.name for file in tmp_path.iterdir()] == ["broken"]


@pytest.mark.parametrize("backend", ["ctranslate2", "fairseq", "transformers"])
def test_a_missing_folder_is_named(tmp_path, backend):
    with pytest.raises(StageError, match="nowhere: no such folder"):
        translate(tmp_path / "nowhere", backend)
    with pytest.raises(StageError, match="nowhere: no such folder"):
        convert_translator(str(tmp_path / "nowhere"), str(tmp_path / "output"))


@pytest.mark.parametrize(
    ("backend", "remedy"),
    [
        ("ctranslate2", r"not a CTranslate2 model .*convert it"),
        ("fairseq", r"no fairseq checkpoint there; it must be named model.pt or"),
        ("transformers", r"not a transformers model \(config.json is missing\)"),
    ],
)
def test_a_folder_of_something_else_is_named_with_a_remedy(tmp_path, backend, remedy):
    with pytest.raises(StageError, match=remedy):
        translate(tmp_path, backend)


def test_a_model_that_is_no_translator_is_refused(tmp_path):
    transformers.BertConfig(hidden_size=8, num_attention_heads=1, num_hidden_layers=1).save_pretrained(tmp_path)
    with pytest.raises(StageError, match="a model of type bert cannot translate"):
        translate(tmp_path, "transformers")
    with pytest.raises(StageError, match="a model of type bert cannot translate"):
        convert_translator(str(tmp_path), str(tmp_path / "output"))


def test_a_converted_model_without_its_subwords_or_its_vocabulary_is_refused(models, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(models / "marian-converted", folder)
    for name in ("source.spm", "target.spm"):
        (folder / name).rename(tmp_path / name)
    assert translate(folder, "ctranslate2", list(PAIRS)) == FRENCH  # from beside it
    (tmp_path / "source.spm").unlink()
    with pytest.raises(StageError, match=r"the file is missing; put source.spm and target.spm"):
        translate(folder, "ctranslate2")
    (folder / "shared_vocabulary.json").unlink()
    with pytest.raises(StageError, match=r"shared_vocabulary\.json or source_vocabulary\.json is missing"):
        translate(folder, "ctranslate2")


def test_a_damaged_model_is_named(models, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(models / "marian-converted", folder)
    (folder / "model.bin").write_bytes((folder / "model.bin").read_bytes()[:1000])
    with pytest.raises(StageError, match="CTranslate2 cannot load "):
        translate(folder, "ctranslate2")


def test_vocabularies_of_older_conversions_are_read(models, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(models / "marian-converted", folder)
    tokens = json.loads((folder / "shared_vocabulary.json").read_text())
    (folder / "shared_vocabulary.json").unlink()
    (folder / "shared_vocabulary.txt").write_text("".join(f"{token}\n" for token in tokens))
    assert translate(folder, "ctranslate2", list(PAIRS)) == FRENCH


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(("folder", "backend"), [("marian", "transformers"), ("marian-converted", "ctranslate2")])
def test_a_gpu_that_is_not_there_is_named(models, folder, backend):
    settings = TranslatorSettings(backend=backend, model=str(models / folder))
    with pytest.raises(StageError, match=r"device.*cuda.* finds no GPU"):
        open_translator(settings, "cuda")
    assert open_translator(settings, "auto").translate(list(PAIRS)) == FRENCH
