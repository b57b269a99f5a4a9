"""Canonical JSON, normalisation, keys, scopes, and where two requests differ. Pure."""

from otel_cassette.keys.canonical import canonical_json, digest
from otel_cassette.keys.compare import Comparison, compare
from otel_cassette.keys.request import (
    CanonicalRequest,
    llm_key,
    llm_request,
    tool_key,
    tool_request,
)
from otel_cassette.keys.rules import ComparisonRules
from otel_cassette.keys.scope import Scope, full_scope, intersect, is_empty, scope_of

__all__ = [
    "CanonicalRequest",
    "Comparison",
    "ComparisonRules",
    "Scope",
    "canonical_json",
    "compare",
    "digest",
    "full_scope",
    "intersect",
    "is_empty",
    "llm_key",
    "llm_request",
    "scope_of",
    "tool_key",
    "tool_request",
]
