"""The base class of all sections of settings."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, field_validator

from corpusgen.credentials import holds_credentials


class Section(BaseModel):
    """A part of the settings. Unknown keys are errors, and so are credentials: settings go into the store."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    added_later: ClassVar[frozenset[str]] = frozenset()
    """Settings that did not exist when the first stores were made, and whose defaults do what was done then."""

    def content(self) -> dict[str, Any]:
        """Return the settings as JSON, without those added later that have their default: older stores lack them."""
        content = self.model_dump(mode="json")
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in self.added_later and value == field.get_default(call_default_factory=True):
                del content[name]
            elif isinstance(value, Section):
                content[name] = value.content()
        return content

    @field_validator("*", mode="before")
    @classmethod
    def _without_credentials(cls, value: Any) -> Any:
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and holds_credentials(text):
                raise ValueError(
                    "this address contains credentials, and settings are saved in the store; remove them, and provide "
                    "them through the environment (AWS_ACCESS_KEY_ID, HF_TOKEN, …), a profile or a role"
                )
        return value
