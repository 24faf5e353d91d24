"""How fast wikitext becomes text: `corpusgen.text.wikitext` against wikiextractor, on the same articles in one process.

python -m benchmarks.wikitext DUMP.xml.bz2 … [--repeat 3] [--diff 5 --out compare.txt]
"""

from __future__ import annotations

import argparse
import bz2
import io
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

from corpusgen.text.wikitext import is_redirect, paragraphs

Article = tuple[str, str]  # title, wikitext
Cleaner = Callable[[Article], list[str]]


def read_articles(path: Path) -> Iterator[Article]:
    """The articles of a dump that are no redirects."""
    with bz2.open(path) as file:
        for _, element in ET.iterparse(io.BytesIO(file.read())):
            if element.tag.rpartition("}")[2] != "page":
                continue
            title = element.findtext("{*}title") or ""
            wikitext = element.findtext("{*}revision/{*}text") or ""
            if element.findtext("{*}ns") == "0" and not is_redirect(wikitext):
                yield title, wikitext
            element.clear()


def ours(article: Article) -> list[str]:
    return paragraphs(article[1])


def wikiextractor() -> dict[str, Cleaner]:
    """Its cleaning in two ways; none where it is not installed.

    With --no-templates the package loads no templates but still looks each one up; dropping them is faster.
    """
    try:
        from wikiextractor.extract import Extractor
    except ImportError:
        return {}

    def cleaner(expand_templates: bool) -> Cleaner:
        def theirs(article: Article) -> list[str]:
            title, wikitext = article
            extractor = Extractor("1", "1", "https://example.org/wiki", title, [wikitext])
            return extractor.clean_text(wikitext, expand_templates=expand_templates, html_safe=True)

        return theirs

    return {"wikiextractor": cleaner(False), "wikiextractor --no-templates": cleaner(True)}


def seconds(clean: Cleaner, articles: list[Article], repeat: int) -> float:
    """The best of some runs: what other processes do to the caches is not ours to measure."""
    times = []
    for _ in range(repeat):
        started = time.process_time()
        for article in articles:
            clean(article)
        times.append(time.process_time() - started)
    return min(times)


def side_by_side(articles: list[Article], theirs: Cleaner | None) -> str:
    pieces = []
    for article in articles:
        pieces.append(f"######## {article[0]}\n\n==== corpusgen\n\n" + "\n\n".join(ours(article)))
        pieces.append("==== wikiextractor\n\n" + "\n\n".join(theirs(article) if theirs else ["(not installed)"]))
    return "\n\n".join(pieces) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dumps", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--diff", type=int, default=0, metavar="N", help="write the text of N articles from both")
    parser.add_argument("--out", type=Path, default=Path("wikitext-diff.txt"), help="where --diff writes")
    arguments = parser.parse_args()

    articles = [article for path in arguments.dumps for article in read_articles(path)]
    megabytes = sum(len(wikitext.encode()) for _, wikitext in articles) / 1e6
    print(f"{len(articles)} articles, {megabytes:.2f} MB of wikitext")
    our_time = seconds(ours, articles, arguments.repeat)
    print(f"{'corpusgen':30}{megabytes / our_time:6.2f} MB/s  ({our_time:.3f} s of CPU)")
    others = wikiextractor()
    for name, clean in others.items():
        time_taken = seconds(clean, articles, arguments.repeat)
        speed = f"{megabytes / time_taken:6.2f} MB/s  ({time_taken:.3f} s of CPU)"
        print(f"{name:30}{speed}, corpusgen is {time_taken / our_time:.2f} times as fast")
    if not others:
        print("wikiextractor is not installed: nothing to compare with")
    if arguments.diff:
        step = max(1, len(articles) // arguments.diff)
        arguments.out.write_text(
            side_by_side(articles[::step][: arguments.diff], others.get("wikiextractor")), encoding="utf-8"
        )
        print(f"texts side by side: {arguments.out}")


if __name__ == "__main__":
    main()
