"""The pictures of the README, from a quickstart that is done: docs/images/quickstart.svg and report.png.

    python tools/pictures.py [--folder quickstart]

Needs Chromium. Run it where the folder lies, so that paths in the pictures are short.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COLUMNS = 112


def terminal(folder: str) -> None:
    """What the command prints when all is done, in the colours of a terminal."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    command = ["corpusgen", "quickstart", "--folder", folder]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(said))
    console.save_svg(str(IMAGES / "quickstart.svg"), title="corpusgen quickstart")


def page(folder: str) -> None:
    """The top of the report."""
    with sync_playwright() as browsers:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        opened = browser.new_page(viewport={"width": 1000, "height": 1080})
        opened.goto((Path(folder) / "report.html").absolute().as_uri())
        opened.screenshot(path=str(IMAGES / "report.png"))
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="quickstart")
    folder = parser.parse_args().folder
    terminal(folder)
    page(folder)


if __name__ == "__main__":
    main()
