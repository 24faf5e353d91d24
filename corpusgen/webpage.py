"""What our HTML pages share: they stand alone, look alike, and can be read on a phone and in the dark."""

from __future__ import annotations

STYLESHEET = """
:root { --text: #1d2126; --muted: #5c6470; --line: #d9dde3; --ground: #fff; --raised: #f5f6f8;
  color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7eb; --muted: #a2aab5; --line: #363c45; --ground: #14171b; --raised: #1d2127 }
}
body { margin: 0 auto; max-width: 64rem; padding: 2.5rem 1.25rem 4rem; color: var(--text); background: var(--ground);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; letter-spacing: -0.015em; overflow-wrap: anywhere }
h2 { margin: 3rem 0 .75rem; font-size: 1.25rem } h3 { margin: 1.75rem 0 0; font-size: 1rem }
p, dd { max-width: 46rem } header p, .note { color: var(--muted) } .note { margin: .5rem 0 .75rem; font-size: .875rem }
.scroll { overflow-x: auto } .scroll:focus-visible { outline: 2px solid var(--muted) }
table { width: 100%; border-collapse: collapse; font-size: .9375rem; font-variant-numeric: tabular-nums }
th, td { padding: .45rem .9rem .45rem 0; text-align: left; white-space: nowrap } th { font-weight: 600 }
thead th { border-bottom: 2px solid var(--line); font-size: .8125rem; color: var(--muted) }
figure { margin: 0 }
.panels { display: grid; gap: 1.25rem; grid-template-columns: repeat(auto-fill, minmax(min(18rem, 100%), 1fr)) }
svg { display: block; width: 100%; height: auto }
details { margin: .5rem 0; padding: .6rem 1rem; border-radius: .5rem; background: var(--raised) }
summary { cursor: pointer; font-weight: 600 } dt { margin-top: .6rem; font-weight: 600 } dd { margin: 0 }
"""


def page(title: str, body: str, style: str = "", head: str = "") -> str:
    """A whole page. All four are HTML (`style` CSS) already: what they hold of others' text must be escaped."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{head}<title>{title}</title>\n<style>{STYLESHEET}{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
