"""The totals of a replay as OpenTelemetry counters (API only).

Lives here: the four counters and when they are added to. Not here: their names (`names.py`).
"""

from __future__ import annotations

from opentelemetry import metrics

from otel_cassette.engine import Totals
from otel_cassette.session import names


def count(totals: Totals, mode: str) -> None:
    """Add what a replay came to; without a meter provider this does nothing.

    Args:
        totals: Of the replay, at its end.
        mode: `strict`, `lenient` or `fallthrough`; an attribute of each measurement.
    """
    meter = metrics.get_meter("otel_cassette")
    values = {
        names.SERVED_METRIC: totals.served,
        names.LIVE_METRIC: totals.live,
        names.MISSED_METRIC: totals.missed,
        names.DIVERGED_METRIC: totals.diverged,
    }
    for metric in names.METRICS:
        if metric.key not in values:
            continue
        counter = meter.create_counter(metric.key, unit=metric.unit, description=metric.meaning)
        counter.add(values[metric.key], {names.MODE_ATTR: mode})
