"""Convert fairseq and transformers models to CTranslate2, which is faster and needs neither package in workers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from corpusgen.errors import StageError
from corpusgen.io.atomic import replace_folder, temporary_path
from corpusgen.models.files import local_path
from corpusgen.models.translate.fairseq_compat import checkpoint_errors_explained, import_fairseq
from corpusgen.models.translate.subwords import find_subword_files
from corpusgen.models.translate.with_fairseq import find_checkpoint
from corpusgen.models.translate.with_transformers import check_model, load_errors_explained

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")
_NOT_FOR_US = ["*.h5", "*.ot", "*.msgpack", "*.onnx", "*.tflite"]  # weights for other frameworks


def convert_translator(
    source: str,
    output: str,
    quantization: str | None = None,
    *,
    revision: str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write `source` as a CTranslate2 model to the folder `output`, with its sub-word files.

    `source` is the folder (or checkpoint) of a fairseq model, the folder of a transformers model, or the hub id of
    one, which is fetched. `quantization` is one of `QUANTIZATIONS`, or None to keep the precision. Languages are needed
    only for fairseq checkpoints that do not name them. The folder appears when it is complete.
    """
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise StageError(f"quantization: {quantization}: unknown; choose from {', '.join(QUANTIZATIONS)}")
    wanted = Path(output)
    if wanted.exists() and not overwrite:
        raise StageError(f"{wanted} already exists; choose another name or overwrite it (--overwrite)")
    if wanted.exists() and not (wanted / "model.bin").is_file():
        raise StageError(f"{wanted} already exists and is not a converted model; choose another name")
    folder = _fetched(source, revision)
    with temporary_path(wanted) as unfinished:
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        _convert(folder, unfinished, quantization, source_language, target_language)
        for name, file in find_subword_files(folder if folder.is_dir() else folder.parent).items():
            shutil.copyfile(file, unfinished / name)
        replace_folder(unfinished, wanted)


def _fetched(source: str, revision: str | None) -> Path:
    source = local_path(source)
    if os.path.exists(source):
        return Path(source)
    check_model(source, revision)
    import huggingface_hub

    with load_errors_explained(source):
        return Path(huggingface_hub.snapshot_download(source, revision=revision, ignore_patterns=_NOT_FOR_US))


def _convert(model: Path, output: Path, quantization: str | None, source: str | None, target: str | None) -> None:
    from ctranslate2.converters import FairseqConverter, TransformersConverter

    if (model / "config.json").is_file():
        check_model(str(model), None)
        with load_errors_explained(str(model)):
            TransformersConverter(str(model)).convert(str(output), quantization=quantization)
    else:
        checkpoint = find_checkpoint(str(model))
        import_fairseq()
        converter = FairseqConverter(str(checkpoint), str(checkpoint.parent), source_lang=source, target_lang=target)
        with checkpoint_errors_explained(checkpoint):
            converter.convert(str(output), quantization=quantization)
