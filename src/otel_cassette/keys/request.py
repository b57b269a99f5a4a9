"""One request in canonical form, with the keys made of it.

Lives here: `CanonicalRequest`: fields, scope, digests on any scope. Not here: how two of them are
compared field by field (`compare.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_cassette.keys.canonical import canonical_json, digest
from otel_cassette.keys.fields import (
    canonical_model,
    canonical_params,
    canonical_response_format,
    canonical_tool_choice,
    canonical_tools,
    is_opaque,
    params_and_extra,
)
from otel_cassette.keys.masks import PLACEHOLDER_PART, holds_mask
from otel_cassette.keys.messages import canonical_messages
from otel_cassette.keys.rules import ComparisonRules
from otel_cassette.keys.scope import FULL_LLM, FULL_TOOL, Scope

JSON = Any
_MODEL_FIELDS = (
    "extra",
    "input",
    "messages",
    "model",
    "params",
    "previous_response_id",
    "response_format",
    "system_instructions",
    "tool_choice",
    "tools",
)
_TOOL_FIELDS = ("arguments", "name")
_CALL_PARTS = frozenset({"tool_call", "tool_call_response"})
_FREE_KEYS = frozenset({"response", "arguments"})


class CanonicalRequest:
    """The request of one call, ready to be compared.

    Attributes:
        kind: `llm`, `tool`, `retrieval` or `embedding`.
        name: Tool or retriever; None for llm and embedding.
        fields: Canonical fields by name; empty ones are absent. What pointers point into.
        scope: What the source captured.
        is_masked: Some text holds a mask that matches any text.
    """

    __slots__ = ("_digests", "_texts", "fields", "is_masked", "kind", "name", "scope")

    def __init__(
        self, kind: str, name: str | None, fields: dict[str, JSON], scope: Scope, *, masks: bool
    ) -> None:
        self.kind: str = kind
        self.name: str | None = name
        self.fields: dict[str, JSON] = fields
        self.scope: Scope = scope
        self._texts: dict[str, str] = {}
        self._digests: dict[Scope, str] = {}
        self.is_masked: bool = masks and any(holds_mask(self.text(field)) for field in fields)

    @property
    def key(self) -> str:
        """The sha256 of the whole canonical request: `llm_key` or `tool_key`."""
        return digest(self.canonical_text)

    @property
    def canonical_text(self) -> str:
        """The canonical JSON of the whole request."""
        return _join((field, self.text(field)) for field in self._order if field in self.fields)

    @property
    def _order(self) -> tuple[str, ...]:
        return _MODEL_FIELDS if self.name is None else _TOOL_FIELDS

    def text(self, field: str) -> str:
        """Return the canonical JSON of one field."""
        text = self._texts.get(field)
        if text is None:
            text = self._texts[field] = canonical_json(self.fields[field])
        return text

    def digest_on(self, scope: Scope) -> str:
        """Return a digest of what *scope* covers; requests with equal digests are equal on it.

        A model compared by family is left out, of a tail only the last turn counts, and of a
        masked request only its shape: equality then has to be confirmed by `compare`.
        """
        made = self._digests.get(scope)
        if made is None:
            made = self._digests[scope] = digest(_join(self._covered(scope)))
        return made

    def shape_on(self, scope: Scope) -> str:
        """Return a digest of what *scope* covers without its texts."""
        turns = self.fields.get("messages", ())
        if "messages/tail" in scope:
            turns = turns[-1:]
        return digest(canonical_json([_shape(turn) for turn in turns] + [self.name]))

    def _covered(self, scope: Scope) -> list[tuple[str, str]]:
        covered: list[tuple[str, str]] = []
        for field in self._order:
            if field not in self.fields:
                continue
            if field == "name" or (field in scope and field != "messages"):
                covered.append((field, self.text(field)))
            elif field == "messages":
                text = self._messages_text(scope)
                if text:
                    covered.append((field, text))
            elif field == "tools" and "tools/names" in scope:
                covered.append((field, canonical_json([t["name"] for t in self.fields["tools"]])))
            elif field == "params":
                known = {k: v for k, v in self.fields["params"].items() if f"params/{k}" in scope}
                if known:
                    covered.append((field, canonical_json(known)))
        return covered

    def _messages_text(self, scope: Scope) -> str:
        if "messages" in scope:
            if "call_ids" in scope:
                return self.text("messages")
            return canonical_json([without_ids(turn) for turn in self.fields["messages"]])
        if "messages/tail" in scope:
            return canonical_json(without_ids(self.fields["messages"][-1]))
        return ""


def _join(items: Any) -> str:
    return "{" + ",".join(f'"{field}":{text}' for field, text in items) + "}"


def without_ids(turn: dict[str, JSON]) -> dict[str, JSON]:
    """Return a turn without the ids that link its calls and results."""
    parts = [
        {k: v for k, v in part.items() if k != "id"} if part["type"] in _CALL_PARTS else part
        for part in turn["parts"]
    ]
    return {"parts": parts, "role": turn["role"]}


def _shape(value: JSON) -> JSON:
    if isinstance(value, dict):
        if value.get("type") in ("blob", "uri", "file", PLACEHOLDER_PART["type"]):
            return "media"
        return {
            k: v if k in ("role", "type") else None if k in _FREE_KEYS else _shape(v)
            for k, v in value.items()
            if k != "id"
        }
    if isinstance(value, list):
        return [_shape(v) for v in value]
    return "" if isinstance(value, str) else value


def llm_request(
    plain: Mapping[str, JSON],
    *,
    kind: str = "llm",
    scope: Scope = FULL_LLM,
    rules: ComparisonRules | None = None,
    masks: bool = False,
) -> CanonicalRequest:
    """Return a model request in canonical form.

    Args:
        plain: An `LLMRequest` as plain JSON; messages may be chat-shaped.
        kind: `llm` or `embedding`.
        scope: What the source captured.
        rules: The user's own rules.
        masks: Whether masks in the texts match any text (recorded traces only).
    """
    fields: dict[str, JSON] = {}
    system, turns = canonical_messages(
        plain.get("system_instructions"), plain.get("messages") or ()
    )
    tools = plain.get("tools")
    given, extra = params_and_extra(plain)
    params, opaque = canonical_params(given)
    for field, value in (
        ("extra", extra),
        ("input", _input(plain.get("input"))),
        ("messages", turns),
        ("model", canonical_model(plain.get("model"))),
        ("params", params),
        ("previous_response_id", plain.get("previous_response_id")),
        ("response_format", canonical_response_format(plain.get("response_format"))),
        ("system_instructions", system),
        ("tool_choice", canonical_tool_choice(plain.get("tool_choice"))),
        ("tools", canonical_tools(tools) if tools else None),
    ):
        if value is not None and value not in ([], {}, ""):
            if is_opaque(value):
                scope = scope - {field}
            else:
                fields[field] = value
    if opaque:
        scope = _without_params(scope, opaque, params)
    if rules:
        fields = rules.apply(fields)
    return CanonicalRequest(kind, None, fields, scope, masks=masks)


def tool_request(
    name: str,
    arguments: JSON,
    *,
    kind: str = "tool",
    scope: Scope = FULL_TOOL,
    rules: ComparisonRules | None = None,
    masks: bool = False,
) -> CanonicalRequest:
    """Return a tool or retrieval call in canonical form: `{"arguments", "name"}`."""
    fields = {"arguments": arguments, "name": name}
    if rules:
        applied = rules.apply(fields)
        fields = {"arguments": applied.get("arguments"), "name": applied.get("name", name)}
    return CanonicalRequest(kind, name, fields, scope, masks=masks)


def _input(value: JSON) -> JSON:
    return [value] if isinstance(value, str) else value


def _without_params(scope: Scope, opaque: list[str], params: Mapping[str, JSON]) -> Scope:
    """Return the scope less the opaque parameters (rule 18); of `params`, those named stay."""
    tokens = {t for t in scope if t not in {f"params/{name}" for name in opaque}}
    if "params" in tokens:
        tokens.remove("params")
        tokens |= {f"params/{name}" for name in params}
    return frozenset(tokens)


def tool_key(name: str, arguments: JSON) -> str:
    """Return the key of a tool or retrieval call.

    Args:
        name: Name of the tool.
        arguments: Arguments by parameter name, plain JSON.

    Returns:
        sha256, lower-case hex, of the canonical JSON `{"arguments": ..., "name": ...}`.

    Raises:
        ValueError: When the arguments are not JSON.
    """
    return digest(canonical_json({"arguments": arguments, "name": name}))


def llm_key(request: Any) -> str:
    """Return the key of a model request.

    Args:
        request: An `LLMRequest`, or the same as a mapping; chat-shaped messages are accepted.

    Returns:
        sha256, lower-case hex, of the canonical JSON of the normalised request without defaults;
        `stream`, operation and provider do not count.

    Raises:
        ValueError: When the request is not JSON.
    """
    plain = request.to_json() if hasattr(request, "to_json") else request
    if isinstance(plain.get("messages"), str):
        plain = {**plain, "messages": [{"role": "user", "content": plain["messages"]}]}
    return llm_request(plain).key
