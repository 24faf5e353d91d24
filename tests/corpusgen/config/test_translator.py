"""Settings that cannot work are refused before anything is loaded."""

import pytest
from pydantic import ValidationError

from corpusgen.models.translate import TranslatorSettings


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "backend ctranslate2 needs a model"),
        ({"backend": "bergamot", "source": "en", "target": "fr"}, "between en and pt"),
        ({"backend": "bergamot", "source": "en", "target": "en"}, "between en and pt"),
        ({"backend": "transformers", "model": "m", "compute_type": "int8"}, "does not support compute_type int8"),
        ({"model": "m", "tokenizer": "moses", "source": "en"}, "moses depends on the languages; set source and target"),
        ({"model": "m", "beams": 5}, "Extra inputs"),
        ({"model": "m", "beam": 0}, "greater than or equal to 1"),
    ],
)
def test_what_cannot_work_is_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        TranslatorSettings(**fields)


def test_every_field_is_described_and_survives_json():
    assert all(field.description for field in TranslatorSettings.model_fields.values())
    settings = TranslatorSettings(model="m", compute_type="int8", beam=2)
    assert TranslatorSettings.model_validate_json(settings.model_dump_json()) == settings
