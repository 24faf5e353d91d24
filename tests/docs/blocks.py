"""The documents, taken apart: blocks of code, commands in them, links, headings."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.testing import PROJECT

DOCUMENTS = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md"))]

_BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)
_FENCE = re.compile(r"^[ >]*(?:```|~~~)", re.M)
_HERE_DOCUMENT = re.compile(r"<<'(\w+)'\n.*?^\1$", re.M | re.S)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.M)


@dataclass(frozen=True)
class Block:
    """Code between fences, and the comment just before it: `<!-- kind: text -->`."""

    document: Path
    line: int
    mark: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(PROJECT)}:{self.line}"

    def marked(self, kind: str) -> str | None:
        """What the comment says, if it is of this kind."""
        return self.mark.removeprefix(f"{kind}: ") if self.mark.startswith(f"{kind}: ") else None


def blocks_of(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    return [
        Block(document, text.count("\n", 0, found.start()) + 1, found["mark"] or "", found["language"], found["text"])
        for found in _BLOCK.finditer(text)
    ]


def fences_of(document: Path) -> int:
    return len(_FENCE.findall(document.read_text(encoding="utf-8")))


def commands_of(script: str) -> list[list[str]]:
    """The commands of a script of simple ones, as words; without comments, redirections and here-documents."""
    commands: list[list[str]] = []
    for line in _HERE_DOCUMENT.sub("", script).replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        words.whitespace_split = True
        command: list[str] = []
        for word in words:
            if word in ("|", "||", "&&", ";"):
                commands.append(command)
                command = []
            elif word[0] in "<>":
                next(words, None)
            elif command or not re.match(r"\w+=", word):  # else it is a variable for the command
                command.append(word)
        commands.append(command)
    return [command for command in commands if command]


def prose_of(document: Path) -> str:
    return _BLOCK.sub("", document.read_text(encoding="utf-8"))


def inline_commands_of(document: Path) -> list[list[str]]:
    """Commands named in running text. They may lack arguments, or have … and <words> for them."""
    spans = [re.sub(r"<[^>]*>", "X", span) for span in _INLINE.findall(prose_of(document))]
    commands = [shlex.split(span) for span in spans if re.match(r"(corpusgen|distiller|make|python) [\w-]", span)]
    return [[word for word in command if "…" not in word] for command in commands]


def links_of(document: Path) -> list[str]:
    return [link for link in _LINK.findall(_INLINE.sub("", prose_of(document))) if "://" not in link]


def anchors_of(document: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = _HEADING.findall(prose_of(document))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
