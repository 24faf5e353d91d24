"""Translation with CTranslate2, the fastest on CPU and GPU: any converted OPUS-MT, fairseq, NLLB or M2M100 model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from corpusgen.config.translator import TranslatorSettings
from corpusgen.errors import StageError
from corpusgen.models.translate.batching import BatchTranslator
from corpusgen.models.translate.languages import language_tokens
from corpusgen.models.translate.subwords import open_subwords

_DECIMALS = 5  # of values that are compared with a threshold


class CTranslate2Translator(BatchTranslator[list[str]]):
    """A translator with a model that a CTranslate2 converter wrote, its sub-word files in the folder or next to it."""

    def __init__(self, settings: TranslatorSettings, device: str, threads: int) -> None:
        import ctranslate2

        folder = Path(settings.model or "")
        if not folder.is_dir():
            raise StageError(f"{folder}: no such folder; give one with a model converted to CTranslate2")
        if not ctranslate2.contains_model(str(folder)):
            raise StageError(
                f"{folder}: not a CTranslate2 model (model.bin is missing); for a fairseq or transformers model choose "
                "that backend, or convert it with `corpusgen convert-translator`"
            )
        if device == "cuda" and not ctranslate2.get_cuda_device_count():
            raise StageError("device: cuda: CTranslate2 finds no GPU; use cpu or auto")
        vocabulary = set(_source_vocabulary(folder))
        self._subwords = open_subwords(folder, vocabulary, settings)
        self._before, self._begin = language_tokens(vocabulary, settings)
        self._after = _end_of_source(folder)
        try:
            self._model: Any = ctranslate2.Translator(
                str(folder), device=device, compute_type=settings.compute_type, intra_threads=threads
            )
        except (RuntimeError, ValueError) as error:
            raise StageError(
                f"CTranslate2 cannot load {folder}: {error}; check compute_type, or convert the model again"
            ) from error
        super().__init__(settings, self._model.device)  # the model knows what `auto` has become

    def translate_without(self, texts: Sequence[str], words: Sequence[str]) -> list[str]:
        """Return a translation of each text that lacks its word, in lower case or with a capital."""
        return [best for best, *_ in self._without(texts, words, 1)]

    def alternatives(
        self, texts: Sequence[str], words: Sequence[str], best: Sequence[str], number: int, max_loss: float
    ) -> list[list[str]]:
        """Return translations without a word that the model finds nearly as probable as the best ones."""
        several = [[one, *others] for one, others in zip(best, self._without(texts, words, number), strict=True)]
        each = [(text, translation) for text, some in zip(texts, several, strict=True) for translation in some]
        # A search without a word shares out its probability among the others, so its own scores are too high.
        scores = iter(self._log_probabilities(each))
        found = []
        for first, *others in several:
            least = next(scores) - max_loss
            near = [next(scores) >= least for _ in others]
            found.append([other for other, is_near in zip(others, near, strict=True) if is_near and other != first])
        return found

    def _log_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the natural logarithm of the probability of each pair's second text as translation of the first."""
        wanted = sorted({pair for pair in pairs if pair[0].strip()})
        scored = self._model.score_batch(
            self._encode([text for text, _ in wanted]),
            [[*self._begin, *self._subwords.encode_output(translation)] for _, translation in wanted],
            max_batch_size=self._batch_tokens,
            batch_type="tokens",
        )
        found = {pair: round(sum(result.log_probs), _DECIMALS) for pair, result in zip(wanted, scored, strict=True)}
        return [found.get(pair, 0.0) for pair in pairs]

    def _without(self, texts: Sequence[str], words: Sequence[str], number: int) -> list[list[str]]:
        """Return up to `number` translations of each text that lack its word."""
        found: dict[tuple[str, str], list[str]] = {}
        for word in sorted(set(words)):  # the words that a search must avoid are the same for a whole batch
            own = [text for text, one in zip(texts, words, strict=True) if one == word]
            forms = dict.fromkeys((word, word.lower(), word[:1].upper() + word[1:]))
            run = partial(self._run, number=number, without=[self._subwords.encode_output(form) for form in forms])
            translations = zip(own, self._in_batches(own, run), strict=True)
            found |= {(text, word): several for text, several in translations}
        return [found[pair] for pair in zip(texts, words, strict=True)]

    def _encode(self, texts: list[str]) -> list[list[str]]:
        return [[*self._before, *self._subwords.encode(text), *self._after] for text in texts]

    def _run(self, batch: list[list[str]], number: int, without: Sequence[list[str]] | None = None) -> list[list[str]]:
        results = self._model.translate_batch(
            batch,
            target_prefix=[self._begin] * len(batch) if self._begin else None,
            beam_size=self._settings.beam,
            num_hypotheses=number,
            suppress_sequences=without,
            disable_unk=True,
            max_input_length=0,
            max_decoding_length=self._settings.max_tokens,
        )
        begin = len(self._begin)
        return [[self._subwords.decode(pieces[begin:]) for pieces in result.hypotheses] for result in results]


def _source_vocabulary(folder: Path) -> list[str]:
    for name in ("shared_vocabulary", "source_vocabulary"):
        if (file := folder / f"{name}.json").is_file():
            return list(json.loads(file.read_text(encoding="utf-8")))
        if (file := folder / f"{name}.txt").is_file():
            return file.read_text(encoding="utf-8").split("\n")
    raise StageError(f"{folder}: shared_vocabulary.json or source_vocabulary.json is missing; convert the model again")


def _end_of_source(folder: Path) -> list[str]:
    """Return the end-of-sentence token for models that need it but do not add it, such as transformers' Marian."""
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return [] if config.get("add_source_eos", True) else [config.get("eos_token", "</s>")]
