"""Which parts of a request a source captured, and what two sources can be compared on.

Lives here: the tokens of a scope and their intersection. Not here: which dialect captures what
(`dialects/`), and the comparison itself (`compare.py`).

Tokens (docs/scopes.md has the same table):

| token | the source captured |
|---|---|
| `model` | the requested model |
| `model/family` | a model name that may be the answering model's: equal up to a version suffix |
| `system_instructions` | the instructions before the conversation |
| `messages` | every message |
| `messages/tail` | only the last messages; how many came before is not known |
| `call_ids` | the ids that link tool calls to their results |
| `tools`, `tools/names` | the tool definitions, or only their names |
| `tool_choice`, `response_format`, `previous_response_id` | that field |
| `params`, `params/NAME` | all parameters, or the one named |
| `extra` | what the request held beside |
| `input` | the input of an embedding |
| `arguments` | the arguments of a tool, the query of a retrieval |
"""

from __future__ import annotations

from functools import lru_cache

Scope = frozenset[str]

FULL_LLM: Scope = frozenset(
    {
        "model",
        "system_instructions",
        "messages",
        "call_ids",
        "tools",
        "tool_choice",
        "response_format",
        "previous_response_id",
        "params",
        "extra",
        "input",
    }
)
FULL_TOOL: Scope = frozenset({"arguments"})

_CONTENT = frozenset({"messages", "messages/tail", "input", "arguments"})
_WEAKER = {"model/family": "model", "messages/tail": "messages", "tools/names": "tools"}


def full_scope(kind: str) -> Scope:
    """Return the scope of a source that captured everything of a call of *kind*."""
    return FULL_LLM if kind in ("llm", "embedding") else FULL_TOOL


def scope_of(tokens: tuple[str, ...] | None, kind: str) -> Scope:
    """Return an entry's scope; None stands for everything."""
    return full_scope(kind) if tokens is None else frozenset(tokens)


@lru_cache(maxsize=4096)
def intersect(a: Scope, b: Scope) -> Scope:
    """Return what both sources captured: the weaker token where they captured one part unequally."""
    common = set(a & b)
    for one, other in ((a, b), (b, a)):
        for token in one - other:
            stronger = _WEAKER.get(token)
            if (stronger is not None and stronger in other) or (
                token.startswith("params/") and "params" in other
            ):
                common.add(token)
    return frozenset(common)


def is_empty(scope: Scope) -> bool:
    """Return whether a comparison on *scope* could not tell anything: it has no content."""
    return not scope & _CONTENT
