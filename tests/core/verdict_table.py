"""Reads docs/verdicts.md, and plays its rows: recordings, live calls and outcomes by their letters.

The letters are explained in the page.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_cassette import Cassette, CassetteEntry, CassetteFailure, CassetteMissError, LLMRequest

PAGE = Path(__file__).parents[2] / "docs" / "verdicts.md"
_WORD = re.compile(
    r"(?P<ask>\?)?(?P<letter>[A-Z])(?P<model>~)?(?P<mark>[!=]\w*)?(?:\((?P<inside>[^)]*)\))?"
)
TOOLS = {
    "T": ("lookup", {"id": 1}),
    "U": ("lookup", {"id": 2}),
    "W": ("refund", {"id": 1}),
    "O": ("outer", {}),
}
REASONS = {"request_changed": "changed", "tool_changed": "tool", "extra_call": "extra"}


@dataclass
class Word:
    """One call of a row."""

    letter: str
    model: str = "m"
    mark: str = ""
    without_request: bool = False
    inside: list[Word] = field(default_factory=list)

    @property
    def is_tool(self) -> bool:
        return self.letter in TOOLS


def words(text: str) -> list[Word]:
    found = []
    for match in _WORD.finditer(text):
        model = "other" if match["model"] else "m"
        inside = words(match["inside"]) if match["inside"] else []
        found.append(Word(match["letter"], model, match["mark"] or "", bool(match["ask"]), inside))
    return found


def tables(page: str) -> list[list[dict[str, str]]]:
    """Return the tables of the page, each row by the names of its columns."""
    result: list[list[dict[str, str]]] = []
    columns: list[str] | None = None
    for line in page.splitlines():
        if not line.startswith("|"):
            columns = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if columns is None:
            columns = cells
            result.append([])
        elif not set(cells[0]) <= {"-"}:
            result[-1].append(dict(zip(columns, cells, strict=True)))
    return result


def rows_with(column: str) -> list[dict[str, str]]:
    return next(t for t in tables(PAGE.read_text("utf-8")) if t and column in t[0])


def prompt(word: Word) -> dict[str, Any]:
    return {"model": word.model, "messages": [{"role": "user", "content": f"prompt {word.letter}"}]}


def answer(text: str) -> dict[str, Any]:
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
    }


def recording(text: str) -> list[CassetteEntry | CassetteFailure]:
    counts: dict[Any, int] = {}
    made: list[CassetteEntry | CassetteFailure] = []

    def add(word: Word, parent: dict[str, Any] | None) -> None:
        kind = "tool" if word.is_tool else "llm"
        place = (kind, str(parent))
        common: dict[str, Any] = {"kind": kind, "parent": parent}
        common["request"] = TOOLS[word.letter][1] if word.is_tool else prompt(word)
        if word.is_tool:
            common["name"] = TOOLS[word.letter][0]
        if word.mark == "!":
            error = {"type": "RuntimeError", "message": "boom"}
            made.append(CassetteFailure(**common, follows=counts.get(place, 0) - 1, error=error))
            return
        index = counts.get(place, 0)
        counts[place] = index + 1
        if word.without_request:
            common |= {"scope": ("model", "params"), "request": {"model": "m"}}
        if word.mark.startswith("!"):
            common["response_integrity"] = word.mark[1:]
        text = word.mark[1:] if word.mark.startswith("=") else word.letter.lower()
        response = text if word.is_tool else answer(text)
        made.append(CassetteEntry(**common, index=index, response=response))
        for child in word.inside:
            add(child, {"kind": kind, "index": index})

    for word in words(text):
        add(word, None)
    return made


def options(text: str) -> dict[str, Any]:
    if text == "-":
        return {}
    name, _, value = text.partition("=")
    return {name: [value] if value else True}


class Client:
    """The real model: says that it was asked."""

    def complete(self, _request: LLMRequest) -> str:
        return "live"

    async def acomplete(self, _request: LLMRequest) -> str:
        await asyncio.sleep(0)
        return "live"


class Player:
    """Makes the live calls of a row in one flavour."""

    def __init__(self, cassette: Cassette) -> None:
        self.cassette = cassette
        self.llm = cassette.wrap_llm(Client())

    def _one(self, call: Callable[[], Any]) -> str:
        try:
            result = call()
        except CassetteMissError:
            return "miss"
        except RuntimeError as error:
            if str(error) != "boom":
                raise
            return "raise"
        return result if isinstance(result, str) else result.text

    def call(self, word: Word) -> str:
        if not word.is_tool:
            return self._one(lambda: self.llm.complete(prompt(word)))
        name, arguments = TOOLS[word.letter]

        def tool(**_arguments: int) -> str:
            inside = " ".join(map(self.call, word.inside))
            return f"live({inside})" if inside else "live"

        return self._one(lambda: self.cassette.wrap_tool(tool, name=name)(**arguments))

    async def acall(self, word: Word) -> str:
        try:
            if not word.is_tool:
                return (await self.llm.acomplete(prompt(word))).text
            name, arguments = TOOLS[word.letter]

            async def tool(**_arguments: int) -> str:
                inside = " ".join([await self.acall(each) for each in word.inside])
                return f"live({inside})" if inside else "live"

            result: str = await self.cassette.wrap_tool(tool, name=name)(**arguments)
        except CassetteMissError:
            return "miss"
        except RuntimeError as error:
            if str(error) != "boom":
                raise
            return "raise"
        return result

    def sync(self, calls: list[Word]) -> list[str]:
        return [self.call(word) for word in calls]

    def tasks(self, calls: list[Word]) -> list[str]:
        async def run() -> list[str]:
            return [await asyncio.create_task(self.acall(word)) for word in calls]

        return asyncio.run(run())

    def threads(self, calls: list[Word]) -> list[str]:
        results: list[str] = []
        for word in calls:
            thread = threading.Thread(target=lambda word=word: results.append(self.call(word)))
            thread.start()
            thread.join()
        return results


def places(text: str) -> list[str]:
    return [] if text == "-" else [part.strip() for part in text.split(",")]


def found_divergences(cassette: Cassette) -> list[str]:
    """Return the divergences as the table writes them: calls inside the first tool as `0/1`."""
    found = []
    for outcome in cassette.calls:
        divergence = outcome.divergence
        if divergence is not None:
            entry = outcome.entry
            nested = entry is not None and entry.parent is not None
            nested = nested or (entry is None and cassette.nested and divergence.kind == "llm")
            place = f"0/{divergence.index}" if nested else str(divergence.index)
            found.append(f"{place} {REASONS[divergence.reason]}")
    return found


def found_flags(cassette: Cassette) -> list[str]:
    shown = []
    for place, outcome in enumerate(cassette.calls):
        shown += [f"{place} {flag}" for flag in outcome.flags if flag not in ("live", "missed")]
    return shown


def text_of(entry: CassetteEntry) -> str:
    return entry.response if entry.kind == "tool" else entry.llm_response.text
