"""The report of a build as one HTML page: what became of its rows, samples to judge by, how fast it went."""

from corpusgen.ops.report.collect import BuildFacts, Collector, PassFacts
from corpusgen.ops.report.page import to_html
from corpusgen.ops.report.write import watch_report, write_report

__all__ = ["BuildFacts", "Collector", "PassFacts", "to_html", "watch_report", "write_report"]
