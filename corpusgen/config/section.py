"""The base class of all sections of settings."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from corpusgen.credentials import holds_credentials


class Section(BaseModel):
    """A part of the settings. Unknown keys are errors, and so are credentials: settings go into the store."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _without_credentials(cls, value: Any) -> Any:
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and holds_credentials(text):
                raise ValueError(
                    "this address holds credentials, and settings are written into the store: leave them out, and give "
                    "them by the environment (AWS_ACCESS_KEY_ID, HF_TOKEN, …), a profile or a role"
                )
        return value
