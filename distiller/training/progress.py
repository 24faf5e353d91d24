"""Progress of a training on standard error: a line redrawn in place in a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live

_LIVE_SECONDS, _LINE_SECONDS = 0.5, 15.0
_NAMED_TERMS = 3  # with more of them, a line would be too long


class _Board:
    """The latest progress, which workers write and the driver reads."""

    def __init__(self) -> None:
        self._news: Mapping[str, Any] | None = None

    def show(self, news: Mapping[str, Any]) -> None:
        self._news = news

    def look(self) -> Mapping[str, Any] | None:
        return self._news


@contextmanager
def board() -> Iterator[Any]:
    """Yield an actor for workers to report to, and show what they report on standard error."""
    import ray

    actor = ray.remote(num_cpus=0)(_Board).remote()
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(actor, done), name="watch", daemon=True)
    thread.start()
    try:
        yield actor
    finally:
        done.set()
        thread.join()
        ray.kill(actor)


def _watch(actor: Any, done: threading.Event) -> None:
    import ray

    live = Live(console=Console(stderr=True), auto_refresh=False) if sys.stderr.isatty() else None
    drawn, step = time.monotonic(), -1
    while True:
        ended = done.wait(_LIVE_SECONDS)
        try:
            news = ray.get(actor.look.remote(), timeout=30)
        except Exception:  # progress is not worth a failure
            return
        is_time = live or ended or time.monotonic() - drawn > _LINE_SECONDS
        if news and is_time and news["step"] != step:
            drawn, step = time.monotonic(), news["step"]
            if live is None:
                sys.stderr.write(line(news) + "\n")
                sys.stderr.flush()
            else:
                live.start()
                live.update(line(news), refresh=True)
        if ended:
            if live:
                live.stop()
            return


def line(news: Mapping[str, Any]) -> str:
    """Format one line: step, loss and its terms, speed, and the figures of held-out rows."""
    rate = f"{news['rate']:,.0f} {news.get('counted', 'rows')}/s"
    text = (
        f"step {news['step']:,} of at most {news['last_step']:,}, epoch {news['epoch']:.1f}: "
        f"loss {sum(news['terms'].values()):.4f} ({_terms(news['terms'])}), {rate}"
    )
    if found := news["validation"]:
        text += f"; held out: loss {found['loss']:.4f}"
        if found["differing"]:
            text += f", {found['ordered']:.1%} ordered (frozen model {found['ordered_frozen']:.1%})"
    return text


def _terms(terms: Mapping[str, float]) -> str:
    if len(terms) <= _NAMED_TERMS:
        return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in terms.items())
    return "terms in thousandths: " + " ".join(f"{1000 * value:.0f}" for value in terms.values())
