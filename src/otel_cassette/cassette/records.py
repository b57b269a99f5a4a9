"""Records as a cassette takes them in and shows them: masked, and with their key.

Not here: the rules of masking (`redaction/`) and of keys (`keys/`).
"""

from __future__ import annotations

from typing import Any

from otel_cassette.document import (
    record_key,
)
from otel_cassette.model.entry import (
    CassetteEntry,
    CassetteFailure,
)
from otel_cassette.redaction import Redactor, mask_call

_NEVER = object()


def mask_record(
    record: CassetteEntry | CassetteFailure, redactor: Redactor
) -> CassetteEntry | CassetteFailure:
    """Return a record without its secrets; the same object where it has none."""
    parts = {
        name: getattr(record, name, None) for name in ("request", "response", "yields", "error")
    }
    changed, _ = mask_call(redactor, parts)
    return record.model_copy(update=changed) if changed else record


def with_key(record: Any) -> Any:
    """Fill in the key of a record the first time it is shown; a stored one never counts.

    A copy of a record with another request carries the mark of the first: that it is of another
    object tells.
    """
    if record.__dict__.get("_keyed", _NEVER) is not record.request:
        record.__dict__["key"] = record_key(record)
        record.__dict__["_keyed"] = record.request
    return record
