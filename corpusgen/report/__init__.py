"""A build as one HTML page: what became of what, samples to judge by, how fast it went."""

from corpusgen.report.collect import BuildFacts, Collector, PassFacts
from corpusgen.report.page import to_html
from corpusgen.report.write import watch_report, write_report

__all__ = ["BuildFacts", "Collector", "PassFacts", "to_html", "watch_report", "write_report"]
