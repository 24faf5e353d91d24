"""The old import path of `corpusgen.models.translate`, kept for one version."""

import warnings

from corpusgen.models.translate import TranslatorSettings, open_translator

__all__ = ["TranslatorSettings", "open_translator"]

warnings.warn("corpusgen.translate is now corpusgen.models.translate", DeprecationWarning, stacklevel=2)
