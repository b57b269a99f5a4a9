"""Fifty secrets through a cassette: in no file, message, divergence or report; and no false divergence."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_cassette import Cassette, CassetteMissError, LLMRequest, LLMResponse, RedactionRule
from otel_cassette.redaction import DEFAULT_RULES

_random = random.Random(7)


def _secret(prefix: str, count: int) -> str:
    return (
        prefix
        + "7"
        + "".join(_random.choice(string.ascii_letters + string.digits) for _ in range(count - 1))
    )


SECRETS = [
    _secret(prefix, 40)
    for prefix in (
        "sk-",
        "sk-proj-",
        "sk-ant-api03-",
        "ghp_",
        "hf_",
        "gsk_",
        "xoxb-",
        "pplx-",
        "glpat-",
        "sk_live_",
    )
    for _ in range(5)
]


def _holds(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


class _Client:
    """A model that says back what it is told, also as a stream in pieces of 5 characters."""

    model = "m"
    provider = "p"

    def complete(self, request: LLMRequest) -> LLMResponse:
        text = f"you said: {request.messages[-1].text}"
        return LLMResponse(choices=[{"message": {"role": "assistant", "content": text}}])  # type: ignore[arg-type]

    def stream(self, request: LLMRequest) -> Iterator[str]:
        text = f"you said: {request.messages[-1].text}"
        yield from (text[i : i + 5] for i in range(0, len(text), 5))


def _chat(text: str) -> LLMRequest:
    return LLMRequest(messages=[{"role": "user", "content": text}])  # type: ignore[arg-type]


def _run(cassette: Cassette, secrets: list[str], client: Any = None, note: str = "") -> list[str]:
    """Send each secret through every kind of call; return all that came back, as text."""
    llm = cassette.wrap_llm(client)

    @cassette.wrap_tool
    def login(token: str, options: dict[str, Any]) -> dict[str, Any]:
        return {"token": token, "nested": [options]}

    @cassette.wrap_tool
    def spell(token: str) -> Iterator[str]:
        yield from (token[i : i + 3] for i in range(0, len(token), 3))

    @cassette.wrap_retriever
    def search(query: str) -> list[str]:
        return [f"found {query}"]

    came: list[str] = []
    for secret in secrets:
        came.append(llm.complete(_chat(f"{note}my key is {secret}, thanks")).text)
        came.append("".join(llm.stream(_chat(f"{note}stream {secret} please"))))
        came.append(json.dumps(login(secret, {"note": f"use {secret}", secret: 1})))
        came.append("".join(spell(secret)))
        came.append(str(search(f"docs for {secret}")))
    return came


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cassettes") / "secrets.jsonl"
    cassette = Cassette()
    came = _run(cassette, SECRETS, _Client())
    assert len(_holds("\n".join(came))) == len(SECRETS), "the program itself gets what it asked for"
    cassette.save(path)
    return path


def test_no_secret_is_in_the_file(recorded: Path) -> None:
    text = recorded.read_text(encoding="utf-8")
    assert len(SECRETS) == 50
    assert _holds(text) == []
    # nor in pieces: the stream's chunks and the generator's values, joined
    for line in map(json.loads, text.splitlines()[1:]):
        for pieces in (
            line.get("yields") or [],
            (line.get("response") or {})["chunks"] if "chunks" in str(line.get("response")) else [],
        ):
            joined = "".join(
                piece if isinstance(piece, str) else piece.get("text", "") for piece in pieces
            )
            assert _holds(joined) == []


def test_redaction_causes_no_divergence(recorded: Path) -> None:
    cassette = Cassette.load(recorded)
    came = _run(cassette, SECRETS)
    assert cassette.divergences == []
    assert cassette.unplayed == []
    assert _holds("\n".join(came)) == [], "a masked answer plays back masked"
    assert "<redacted:" in came[0]


def test_a_key_that_was_changed_since_is_no_divergence(recorded: Path) -> None:
    cassette = Cassette.load(recorded)
    fresh = [secret[:-4] + "0000" for secret in SECRETS]
    _run(cassette, fresh)
    assert cassette.divergences == []


def test_no_secret_is_in_a_message_a_divergence_or_a_report(recorded: Path) -> None:
    cassette = Cassette.load(recorded, mode="lenient")
    _run(cassette, SECRETS, note="please: ")
    assert cassette.divergences
    shown = "\n".join(
        [
            *map(str, cassette.divergences),
            *map(repr, cassette.divergences),
            *(json.dumps(d.to_dict()) for d in cassette.divergences),
            *map(repr, cassette.calls),
            repr(cassette.first_divergence),
        ]
    )
    assert _holds(shown) == []
    strict = Cassette.load(recorded)
    with pytest.raises(CassetteMissError) as caught:
        strict.wrap_llm().complete(_chat(f"something else with {SECRETS[0]}"))
    error = caught.value
    assert (
        _holds(
            f"{error}\n{error!r}\n{error.__dict__!r}\n{error.divergence!r}\n{strict.divergences!r}"
        )
        == []
    )


def test_failures_are_masked(tmp_path: Path) -> None:
    cassette = Cassette(record_errors=True)

    @cassette.wrap_tool
    def broken(token: str) -> str:
        raise RuntimeError(f"401 for {token}")

    with pytest.raises(RuntimeError, match=SECRETS[0]):
        broken(SECRETS[0])
    cassette.save(tmp_path / "c.jsonl")
    text = (tmp_path / "c.jsonl").read_text(encoding="utf-8")
    assert "401 for <redacted:" in text
    assert _holds(text) == []


def test_path_rules_start_at_the_request_on_both_sides(tmp_path: Path) -> None:
    rules = [*DEFAULT_RULES, RedactionRule("who", paths=("/customer/name", "/owner"))]
    cassette = Cassette(redact=rules)

    def lookup(customer: dict[str, str]) -> dict[str, str]:
        return {"owner": customer["name"], "id": "A-1"}

    assert cassette.wrap_tool(lookup)({"name": "Ada"}) == {"owner": "Ada", "id": "A-1"}
    cassette.save(tmp_path / "c.jsonl")
    assert "Ada" not in (tmp_path / "c.jsonl").read_text(encoding="utf-8")
    loaded = Cassette.load(tmp_path / "c.jsonl")
    assert loaded.wrap_tool(lookup)({"name": "Bo"}) == {"owner": "<redacted:who>", "id": "A-1"}
    assert loaded.divergences == []


def test_without_rules_nothing_is_masked(tmp_path: Path) -> None:
    cassette = Cassette(redact=())
    _run(cassette, SECRETS[:1], _Client())
    cassette.save(tmp_path / "c.jsonl")
    assert _holds((tmp_path / "c.jsonl").read_text(encoding="utf-8")) == SECRETS[:1]
    loaded = Cassette.load(tmp_path / "c.jsonl")
    assert SECRETS[0] in _run(loaded, SECRETS[:1])[0]


def test_the_summary_says_that_answers_were_masked() -> None:
    """A masked answer plays back masked; nobody may take it for the real one."""
    secret = "sk-ant-api03-" + "a1B2c3D4" * 6
    cassette = Cassette()
    tool = cassette.wrap_tool(lambda order: {"order": order, "key": secret}, name="look_up")
    with cassette.recording() as recording:
        tool("A-1")
    assert recording.summary.masked == 1
    with cassette.replaying() as replay:
        assert secret not in str(tool("A-1"))
    assert replay.summary.masked == 1
    assert str(replay.summary).endswith("answers with a secret masked 1")
