"""Exported traces, replayed through the real SDKs with the requests that were really sent.

The files beside each trace say what went over the wire. An SDK sends each of those requests again,
and has to see what the provider answered: text, tool calls, finish reason, usage.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import anthropic
import openai
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from google import genai
from google.genai.types import GenerateContentResponse
from openai._models import construct_type
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from otel_cassette import Cassette

DATA = Path(__file__).parent.parent / "data"
OPENINFERENCE = "dialects/openinference"
TRACES = [
    "traces/otel-genai-openai/refund--span_and_event",
    "traces/otel-genai-openai/stream--event_only",
    "traces/otel-genai-openai/parallel",
    "traces/otel-genai-openai/extras",
    "traces/otel-genai-openai/responses",
    "traces/otel-genai-openai/threads",
    "traces/otel-genai-openai/error",
    "traces/otel-openai-v2/refund--legacy_events",
    "traces/otel-openai-v2/parallel--legacy_events",
    "traces/otel-openai-v2/stream",
    "traces/otel-util-genai/refund--event_only",
    "traces/otel-util-genai/manualchat",
    "traces/otel-genai-anthropic/refund",
    "traces/otel-genai-anthropic/refund--with_native",
    "traces/anthropic-sdk-native/extras",
    "traces/anthropic-sdk-native/toolrunner",
    "traces/otel-google-genai/refund",
    f"{OPENINFERENCE}/openinference-openai/refund",
    f"{OPENINFERENCE}/openinference-openai/responses",
    f"{OPENINFERENCE}/openinference-openai/longchat--count10000",
    f"{OPENINFERENCE}/openinference-openai/error",
    f"{OPENINFERENCE}/openinference-anthropic/refund",
    f"{OPENINFERENCE}/openinference-anthropic/error",
    f"{OPENINFERENCE}/openinference-google-genai/refund",
]
NO_STATUS = None  # of a refused connection


def calls_of(truth):
    """Return the calls as a program made them: a request that was retried is one."""
    calls = []
    for call in truth["calls"]:
        if call["kind"] != "llm":
            continue
        if call.get("retry_count") not in (None, "0"):
            calls = [c for c in calls if c["request"] != call["request"] or c["status"] == 200]
        calls.append(call)
    return calls


def was_left(call):
    """Return whether the program did not read the stream to its end."""
    prompt = json.dumps(call["request"].get("messages"))
    return bool(call.get("client_disconnected")) or "consumer raises" in prompt


class Asker:
    """Sends the bodies of real requests through the SDKs, and reads the answers as a program does."""

    def __init__(self):
        nowhere = "http://127.0.0.1:9"
        self.openai = openai.OpenAI(api_key="k", base_url=f"{nowhere}/v1", max_retries=0)
        self.anthropic = anthropic.Anthropic(api_key="k", base_url=nowhere, max_retries=0)
        self.google = genai.Client(api_key="k", http_options={"base_url": nowhere})

    def close(self):
        for client in (self.openai, self.anthropic, self.google):
            client.close()

    def ask(self, call):
        ask = getattr(self, call["api"].replace(".", "_"))
        return ask(call["request"], call.get("path"), stream=call["stream"])

    def openai_chat_completions(self, body, path, *, stream):
        if not stream:
            return chat(self.openai.post("/chat/completions", body=body, cast_to=ChatCompletion))
        events = self.openai.post(
            "/chat/completions",
            body=body,
            cast_to=ChatCompletion,
            stream=True,
            stream_cls=openai.Stream[ChatCompletionChunk],
        )
        return chat_of_chunks(list(events))

    def openai_responses(self, body, path, *, stream):
        if not stream:
            return responses(self.openai.post("/responses", body=body, cast_to=Response))
        events = self.openai.post(
            "/responses",
            body=body,
            cast_to=Response,
            stream=True,
            stream_cls=openai.Stream[ResponseStreamEvent],
        )
        return responses([*events][-1].response)

    def anthropic_messages(self, body, path, *, stream):
        if not stream:
            return messages(self.anthropic.post(path or "/v1/messages", body=body, cast_to=Message))
        events = self.anthropic.post(
            path,
            body=body,
            cast_to=Message,
            stream=True,
            stream_cls=anthropic.Stream[RawMessageStreamEvent],
        )
        return messages_of_events(list(events))

    def gemini_generateContent(self, body, path, *, stream):  # noqa: N802 - the API's name
        answer = self.google._api_client.request("post", path.split("/", 2)[2], body, None)
        return generated(json.loads(answer.body))


def value(arguments):
    return json.loads(arguments or "{}") if isinstance(arguments, str) else arguments


def chat(answer):
    texts = [c.message.content or "" for c in answer.choices]
    calls = [
        (t.function.name, value(t.function.arguments))
        for c in answer.choices
        for t in c.message.tool_calls or ()
    ]
    usage = answer.usage and (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    return texts, calls, [c.finish_reason for c in answer.choices], usage


def chat_of_chunks(chunks):
    texts, calls, finish = defaultdict(str), defaultdict(lambda: ["", ""]), {}
    for choice in (c for chunk in chunks for c in chunk.choices):
        texts[choice.index] += choice.delta.content or ""
        for call in choice.delta.tool_calls or ():
            calls[choice.index, call.index][0] += call.function.name or ""
            calls[choice.index, call.index][1] += call.function.arguments or ""
        finish[choice.index] = choice.finish_reason or finish.get(choice.index)
    usage = next((c.usage for c in chunks if c.usage), None)
    return (
        list(texts.values()),
        [(name, value(arguments)) for name, arguments in calls.values()],
        list(finish.values()),
        usage and (usage.prompt_tokens, usage.completion_tokens),
    )


def responses(answer):
    calls = [(o.name, value(o.arguments)) for o in answer.output if o.type == "function_call"]
    usage = answer.usage and (answer.usage.input_tokens, answer.usage.output_tokens)
    return answer.output_text, calls, answer.status, usage


def messages(answer):
    texts = [b.text for b in answer.content if b.type == "text"]
    calls = [(b.name, b.input) for b in answer.content if b.type == "tool_use"]
    return texts, calls, answer.stop_reason, (answer.usage.input_tokens, answer.usage.output_tokens)


def messages_of_events(events):
    blocks = defaultdict(str)
    names = {}
    for event in events:
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            names[event.index] = event.content_block.name
        elif event.type == "content_block_delta":
            delta = event.delta
            blocks[event.index] += getattr(delta, "text", None) or getattr(
                delta, "partial_json", ""
            )
    start, end = events[0].message.usage, events[-2]
    return (
        [text for index, text in blocks.items() if index not in names],
        [(name, value(blocks[index])) for index, name in names.items()],
        end.delta.stop_reason,
        (start.input_tokens, end.usage.output_tokens),
    )


def generated(body):
    answer = GenerateContentResponse._from_response(response=body, kwargs={})
    parts = answer.candidates[0].content.parts or ()
    calls = [(p.function_call.name, p.function_call.args) for p in parts if p.function_call]
    usage = answer.usage_metadata
    texts = [p.text for p in parts if p.text and not p.thought]
    counts = (usage.prompt_token_count, usage.candidates_token_count)
    return texts, calls, answer.candidates[0].finish_reason, counts


def true_answer(call):
    """Return what a program saw when the trace was recorded."""
    read, model = {
        "openai.chat.completions": (chat, ChatCompletion),
        "openai.responses": (responses, Response),
        "anthropic.messages": (lambda body: messages(Message.model_validate(body)), None),
        "gemini.generateContent": (generated, None),
    }[call["api"]]
    body = call["response"]
    seen = read(body if model is None else construct_type(type_=model, value=body))
    options = call["request"].get("stream_options") or {}
    if (
        call["stream"]
        and call["api"].startswith("openai.chat")
        and not options.get("include_usage")
    ):
        return (*seen[:3], None)  # nobody asked for it, so the stream had none
    return seen


@pytest.fixture
def asker(instrumented):
    made = Asker()
    yield made
    made.close()


@pytest.mark.parametrize("trace", TRACES)
def test_the_sdk_sees_what_the_provider_answered(trace, asker):
    truth = json.loads((DATA / f"{trace}.truth.json").read_text(encoding="utf-8"))
    sources = [str(DATA / f"{trace}{end}") for end in (".otlp.jsonl", ".logs.otlp.jsonl")]
    cassette = Cassette.from_trace([s for s in sources if Path(s).exists()], merge=True)
    calls = [c for c in calls_of(truth) if not was_left(c)]

    seen, expected = [], []
    with cassette.replaying(block_network=True) as session:
        for call in calls:
            failed = call.get("status") != 200
            expected.append(
                ("error", call.get("status", NO_STATUS)) if failed else true_answer(call)
            )
            try:
                seen.append(asker.ask(call))
            except (openai.APIError, anthropic.APIError) as error:
                seen.append(("error", getattr(error, "status_code", NO_STATUS)))

    assert seen == expected
    assert not session.divergences
    assert (session.summary.live, session.summary.missed) == (0, 0)
    assert session.summary.served == len(calls)
