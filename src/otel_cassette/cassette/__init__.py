"""`Cassette`: what users hold."""

from otel_cassette.cassette.facade import Cassette
from otel_cassette.cassette.records import mask_record

__all__ = ["Cassette", "mask_record"]
