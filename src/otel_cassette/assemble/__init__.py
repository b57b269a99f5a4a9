"""From finished spans to cassette entries and a report: one pure function, `assemble`.

Used by the processor at the end of a session, by the exporter, by recovery, and by everything that
reads exported traces. Nothing here knows a file, a clock or the OTel SDK.

    reading.py      spans to readings, through the dialects
    limits.py       texts cut at a limit that the run itself shows
    tree.py         the span tree: paths, enclosing calls
    duplicates.py   one call seen by several spans
    history.py      requests completed by the run's own answers
    matching.py     tool spans and the model's own tool calls
    inferring.py    tools without spans, read off the next request
    settling.py     order, parents, indices, entries
    report.py       per span: replayable, or why not
"""

from __future__ import annotations

from otel_cassette.assemble.report import AssemblyReport, ReportLine, SpanStatus
from otel_cassette.assemble.run import Assembly, assemble

__all__ = ["Assembly", "AssemblyReport", "ReportLine", "SpanStatus", "assemble"]
