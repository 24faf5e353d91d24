from tests.engine.conftest import undisturbed

__all__ = ["undisturbed"]
