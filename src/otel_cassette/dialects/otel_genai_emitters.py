"""What single emitters of OTel GenAI spans do and leave out.

Lives here: one table by instrumentation scope: which parts of a request are always captured, and
which switch turns content on. Not here: how spans are read.

Each row was read off the emitter's own spans or source; an emitter that is not listed is taken to
capture only what is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_OFFICIAL_PARAMS: Final = (
    "temperature",
    "top_p",
    "max_tokens",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "stop_sequences",
    "n",
)


TRANSPORTS: Final = "Record with the HTTP transports, which see the provider's payload."
"""What helps where no switch of the instrumentation does."""


@dataclass(frozen=True, slots=True)
class Emitter:
    """What is known of the instrumentation that made a span.

    Attributes:
        content_switch: How to turn content on, one sentence.
        always_params: Parameters whose absence says that the request had none.
        always_tools: Absence of tool definitions says so too, once content is captured.
        may_omit_schemas: Tool definitions without parameters may have had some.
        writes_response_model: `gen_ai.request.model` is the model that answered.
        drops_media: Content lists are written as no parts at all.
        loses_history_text: Assistant messages with tool calls are written without their text.
        drops_failed_input: A call that failed has no messages, whatever was switched on.
        unwraps_result: Results that are no object are wrapped as `{"result": ...}`.
        embedding_remedy: How to get at embeddings.
    """

    content_switch: str
    always_params: tuple[str, ...] = ()
    always_tools: bool = False
    may_omit_schemas: bool = False
    writes_response_model: bool = False
    drops_media: bool = False
    loses_history_text: bool = False
    drops_failed_input: bool = False
    unwraps_result: bool = False
    embedding_remedy: str = TRANSPORTS


_CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_OFFICIAL_SWITCH: Final = (
    f"Set {_CAPTURE}=span_only (or event_only with a LoggerProvider whose records are read too)."
)
_UNKNOWN: Final = Emitter(
    f"Turn on content capture in the instrumentation; for most that is {_CAPTURE}."
)
_EMITTERS: Final[tuple[tuple[str, Emitter], ...]] = (
    (
        "opentelemetry.instrumentation.genai.openai",
        Emitter(_OFFICIAL_SWITCH, _OFFICIAL_PARAMS, always_tools=True),
    ),
    ("opentelemetry.instrumentation.genai", Emitter(_OFFICIAL_SWITCH, always_tools=True)),
    (
        "opentelemetry.instrumentation.google_genai",
        Emitter(_OFFICIAL_SWITCH, always_tools=True, may_omit_schemas=True),
    ),
    (
        "opentelemetry.instrumentation.openai_v2",
        Emitter(
            f"Set {_CAPTURE}=true and read the log records too: this instrumentation writes "
            "messages as log events.",
            drops_media=True,
            loses_history_text=True,
        ),
    ),
    ("opentelemetry.util.genai", Emitter(_OFFICIAL_SWITCH, drops_media=True)),
    (
        "com.anthropic.sdk",
        Emitter("Set ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE=content."),
    ),
    (
        "pydantic-ai",
        Emitter(
            "Use InstrumentationSettings(include_content=True).",
            always_tools=True,
            drops_failed_input=True,
        ),
    ),
    (
        "gcp.vertex.agent",
        Emitter(
            f"Set {_CAPTURE}=SPAN_ONLY or SPAN_AND_EVENT.",
            may_omit_schemas=True,
            unwraps_result=True,
        ),
    ),
    ("agent_framework", Emitter("Set ENABLE_SENSITIVE_DATA=true.")),
    (
        "semantic_kernel",
        Emitter("Set SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true."),
    ),
    (
        "mlflow",
        Emitter("Leave MLFLOW_ENABLE_OTEL_GENAI_SEMCONV off.", writes_response_model=True),
    ),
    ("opentelemetry.instrumentation.openai_agents", Emitter("", writes_response_model=True)),
)


def emitter_of(scope: str) -> Emitter:
    """Return what is known of the emitter with this instrumentation scope name."""
    for prefix, emitter in _EMITTERS:
        if scope.startswith(prefix):
            return emitter
    return _UNKNOWN
