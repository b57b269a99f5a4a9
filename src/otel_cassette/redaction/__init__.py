"""Secrets are masked before anything is compared, written, printed or put on a span.

Lives here: rules (`rules.py`), the built-in ones (`builtin.py`), the literal pre-filter
(`prefilter.py`), the redactor that applies them to text and plain JSON (`redactor.py`), and the
parts of a call they are applied to (`records.py`). All of it is pure: no I/O, no state but a bounded
cache. Not here: where in the record and replay paths a redactor is called.
"""

from otel_cassette.redaction.builtin import DEFAULT_RULES
from otel_cassette.redaction.records import holds_mask, mask_call, mask_pieces
from otel_cassette.redaction.redactor import Redactor
from otel_cassette.redaction.rules import MASK_START, RedactionRule, RuleLike

__all__ = [
    "DEFAULT_RULES",
    "MASK_START",
    "RedactionRule",
    "Redactor",
    "RuleLike",
    "holds_mask",
    "mask_call",
    "mask_pieces",
]
