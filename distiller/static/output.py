"""The folder of a result: the settings it belongs to, the work so far, and finally vectors with their card.

`settings.json` ties it to its settings, `work/` is the store of the passes, and `result.json`, written last, says where
the vectors are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from corpusgen.errors import ConfigError, StoreError
from corpusgen.io.files import open_files
from corpusgen.io.strict_json import from_json
from corpusgen.store import Store
from corpusgen.store.store import differences
from distiller.static.card import Card
from distiller.static.files import Format
from distiller.static.report import TableShown, write_report
from distiller.static.scores import scored
from distiller.static.settings import StaticSettings
from distiller.static.vectors import StaticVectors

KINDS = ("ase", "x2static", "skipgram")
MAY_CHANGE = {"corpus", "output", "workers", "device"}
"""Settings that do not determine the result; what the corpus holds does, not where it is."""
MAY_CHANGE_IN_TRAININGS = {"checkpoint_steps", "cache", "max_failures"}
ENDINGS: Mapping[Format, str] = {"text": ".txt", "binary": ".bin", "npy": ".npy", "model2vec": ""}
_SETTINGS, _RESULT, _CARD, _WORK = "settings.json", "result.json", "README.md", "work"


@dataclass(frozen=True)
class Made:
    """What a method has made: tables by name, each loaded when it is written, and what there is to say about them."""

    tables: Mapping[str, Callable[[], StaticVectors]]
    """A single table is called `vectors`."""
    title: str
    """What they are, in a few words."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """How they were made, for cards and result.json."""


class Output:
    """The folder of a result, on a disk or on S3."""

    def __init__(self, root: str) -> None:
        self.files = open_files(root)
        self.url = self.files.url

    @property
    def store(self) -> Store:
        """Return the store of the passes; it need not exist yet."""
        return Store.at(f"{self.url}/{_WORK}")

    def check(self, settings: StaticSettings, content: Mapping[str, Any]) -> None:
        """Raise ConfigError if the folder holds a result of other settings or data, or files of someone else."""
        if not self.files.exists(_SETTINGS):
            others = [info.path for info in self.files.list("")]
            if others:
                raise ConfigError(
                    f"output: {self.url} holds other files, such as {others[0]}; choose a new or empty folder"
                )
            return
        try:
            stored = from_json(self.files.read(_SETTINGS), dict[str, Any])
        except ValueError as error:
            raise StoreError(
                f"{self.url}/{_SETTINGS} is damaged ({error}); choose another `output`, or repair the file by hand"
            ) from None
        different = list(differences(stored, _tied(settings, content)))
        if different:
            raise ConfigError(
                f"{self.url} belongs to different settings or data:\n"
                + "\n".join(f"  {name}: {there} there, {now} now" for name, there, now in different)
                + "\nuse the stored ones to resume, or choose another `output`"
            )

    def begin(self, settings: StaticSettings, content: Mapping[str, Any]) -> None:
        """Tie the folder to its settings, which also shows that it can be written."""
        self.check(settings, content)
        if not self.files.create(_SETTINGS, json.dumps(_tied(settings, content), indent=1).encode()):
            self.check(settings, content)

    def write(self, made: Made, form: Format, settings: StaticSettings, data: str | None = None) -> dict[str, Any]:
        """Write all tables in a format, with cards, a page, then result.json; return its content.

        With a folder of benchmarks as `data`, cards and page have scores.
        """
        written: dict[str, Any] = {}
        shown: list[TableShown] = []
        for name, load in made.tables.items():
            kept, left_out = load().writable()
            path = f"{name}{ENDINGS[form]}"
            scores = scored(kept, path, data) if data else ""
            facts = {**made.facts, "table": name} if len(made.tables) > 1 else made.facts
            kept.save(f"{self.url}/{path}", form, Card(made.title, facts, scores))
            shown.append(TableShown.of(path, kept, scores))
            written[path] = {"words": len(kept), "dimension": kept.dimension, "left out": len(left_out)}
        first = next(iter(written.values()))
        overview = Card(made.title, {**made.facts, "files": ", ".join(written)})
        self.files.write(_CARD, overview.text(first["words"], first["dimension"]).encode())
        size = {name: first[name] for name in ("words", "dimension")}
        write_report(self.files, made.title, {**size, **made.facts}, settings.model_dump(mode="json"), shown)
        result = {"title": made.title, "files": written, **made.facts}
        self.files.write(_RESULT, json.dumps(result, indent=1, ensure_ascii=False).encode())
        return result


def _tied(settings: StaticSettings, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what determines the result: the settings of its own kind, and what they name as it is now."""
    others = {kind for kind in KINDS if kind != settings.kind}
    tied: dict[str, Any] = settings.model_dump(mode="json", exclude=MAY_CHANGE | others)
    if settings.kind != "ase":
        own: dict[str, Any] = tied[settings.kind]
        tied[settings.kind] = {name: value for name, value in own.items() if name not in MAY_CHANGE_IN_TRAININGS}
    tied["backbone"].pop("model")  # a folder may move; `content` identifies it
    return json.loads(json.dumps({**tied, "made of": content}))  # type: ignore[no-any-return]
