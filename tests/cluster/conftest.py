from tests.corpusgen.engine.conftest import undisturbed

__all__ = ["undisturbed"]
