"""Many calls at once: every caller gets its own answer."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

from otel_cassette import Cassette

CALLS = 200


def said(answer):
    return answer.choices[0].message.content


def record(sdks, ask_chat, texts):
    cassette = Cassette()
    with cassette.recording():
        for text in texts:
            ask_chat(sdks, text)
    return Cassette(cassette.entries, mode="strict")


def test_tasks(sdks, ask_chat, provider):
    recorded = record(sdks, ask_chat, [f"question {n}" for n in range(CALLS)])

    async def ask(n):
        stream = n % 2 == 0
        answer = await sdks.aopenai.chat.completions.create(
            model="gpt-4o-mini",
            messages=[{"role": "user", "content": f"question {n}"}],
            stream=stream,
        )
        if not stream:
            return said(answer)
        return "".join([c.choices[0].delta.content or "" async for c in answer])

    async def main():
        with recorded.replaying() as session:
            answers = await asyncio.gather(*map(ask, reversed(range(CALLS))))
        await sdks.aclose()
        return session, answers

    session, answers = asyncio.run(main())

    assert answers == [f"Echo: question {n}" for n in reversed(range(CALLS))]
    assert str(session.summary) == f"served {CALLS}, live 0, missed 0, unplayed 0, ties 0"
    assert not session.divergences
    assert len(provider.requests) == CALLS


def test_threads_with_and_without_the_context(sdks, ask_chat, provider):
    recorded = record(sdks, ask_chat, [f"question {n}" for n in range(CALLS)])

    def ask(n):
        return said(ask_chat(sdks, f"question {n}"))

    with recorded.replaying() as session, ThreadPoolExecutor(16) as pool:
        futures = [
            pool.submit(contextvars.copy_context().run, ask, n) if n % 2 else pool.submit(ask, n)
            for n in range(CALLS)
        ]
        answers = [future.result() for future in futures]

    assert answers == [f"Echo: question {n}" for n in range(CALLS)]
    assert session.summary.served == CALLS
    assert len(provider.requests) == CALLS


def test_equal_calls_get_each_recorded_answer_once(sdks, ask_chat):
    recorded = record(sdks, ask_chat, ["[count] joke"] * 40)

    with recorded.replaying() as session, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: said(ask_chat(sdks, "[count] joke")), range(40)))

    assert sorted(answers) == sorted(f"Echo: [count] joke #{n}" for n in range(1, 41))
    assert session.summary.served == 40


def test_concurrent_recording_keeps_every_answer_with_its_question(sdks, ask_chat):
    cassette = Cassette()
    with cassette.recording(), ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: ask_chat(sdks, f"[count] {n}"), range(CALLS)))

    asked = [e.request["messages"][0]["parts"][0]["content"] for e in cassette.entries]
    answered = [
        e.response["choices"][0]["message"]["parts"][0]["content"] for e in cassette.entries
    ]
    assert sorted(asked) == sorted(f"[count] {n}" for n in range(CALLS))
    assert all(a.startswith(f"Echo: {q} #") for q, a in zip(asked, answered, strict=True))
