"""The demo's three acts: record, replay from the exported trace, replay with one prompt line changed.

Lives here: the acts and what they print. Not here: the agent (`agent.py`), OpenTelemetry's set-up
(`telemetry.py`).
"""

from __future__ import annotations

from pathlib import Path

from otel_cassette.cassette import Cassette
from otel_cassette.cli.demo import agent
from otel_cassette.cli.demo.telemetry import Telemetry
from otel_cassette.cli.output import Output
from otel_cassette.cli.rendering import counted, print_calls, print_divergences, print_outcomes
from otel_cassette.clients.tracing import wrap_llm, wrap_tool
from otel_cassette.errors import CassetteMissError
from otel_cassette.formats import load_trace
from otel_cassette.model.entry import CassetteMode, MatchRule
from otel_cassette.session import Session
from otel_cassette.session.names import DIVERGED_ATTR, DIVERGENCE_SPAN

RECORDED = "recorded.otlp.jsonl"
REPLAYED = "replayed.otlp.jsonl"
CHANGED = "changed.otlp.jsonl"
CASSETTE = "refund.cassette.jsonl"

OLD_LINE = "Refund up to 50 EUR yourself; leave more to a colleague."
NEW_LINE = "Refund up to 20 EUR yourself; leave more to a colleague."


_MODES: dict[CassetteMode, str] = {
    "strict": "mode strict, a call that departs gets no answer",
    "lenient": "mode lenient, a call that departs gets the recorded answer",
    "fallthrough": "mode fallthrough, a call that departs is made for real",
}


class Story:
    """One telling of the demo.

    Args:
        out: Where it is told.
        folder: Where its files go.
        telemetry: OpenTelemetry, set up.
        mode: Mode of the replay with the changed prompt.
        match: Match rule of both replays.
    """

    def __init__(
        self,
        out: Output,
        folder: Path,
        telemetry: Telemetry,
        *,
        mode: CassetteMode,
        match: MatchRule,
    ) -> None:
        self._out = out
        self._folder = folder
        self._telemetry = telemetry
        self._mode: CassetteMode = mode
        self._match: MatchRule = match

    def record(self) -> Path:
        """Run the agent for real, and return the file its spans were exported to."""
        self._heading(1, "Record", "the agent runs, traced by OpenTelemetry as ever")
        path = self._telemetry.export_to(RECORDED)
        cassette = Cassette()
        tools: dict[str, agent.Tool] = {
            "lookup_order": wrap_tool(agent.lookup_order),
            "refund": wrap_tool(agent.refund),
        }
        with cassette.recording(self._folder / CASSETTE):
            answer = agent.refund_agent(agent.QUESTION, wrap_llm(agent.StandInModel()), tools)
        print_calls(self._out, cassette.entries)
        self._out.line(f"  answer: {answer}", "dim")
        calls = counted(len(cassette.entries), "call")
        self._out.line(f"  {calls} recorded from the spans; exported as OTLP JSON to {RECORDED}")
        return path

    def replay(self, recorded: Path) -> bool:
        """Run the same agent from the exported file; true when nothing departed."""
        self._heading(2, "Replay", f"from {RECORDED}; there is no model, and no tool runs")
        self._telemetry.export_to(REPLAYED)
        cassette = Cassette.from_trace(recorded)
        with cassette.replaying(mode="strict", match=self._match) as session:
            answer = self._run(cassette, agent.INSTRUCTIONS)
        self._out.line(f"  answer: {answer}", "dim")
        self._account(session)
        return not session.divergences and not session.missing

    def change(self, recorded: Path) -> bool:
        """Run the agent with one prompt line changed; true when the replay departed."""
        self._heading(3, "Replay with one line of the prompt changed", _MODES[self._mode])
        self._out.line(f"  - {OLD_LINE}", "removed")
        self._out.line(f"  + {NEW_LINE}", "added")
        path = self._telemetry.export_to(CHANGED)
        cassette = Cassette.from_trace(recorded)
        instructions = agent.INSTRUCTIONS.replace(OLD_LINE, NEW_LINE)
        try:
            with cassette.replaying(mode=self._mode, match=self._match) as session:
                answer = self._run(cassette, instructions, live=self._mode == "fallthrough")
        except CassetteMissError as miss:
            self._out.line(f"  stopped by CassetteMissError: {str(miss).splitlines()[0]}", "bad")
            print_divergences(self._out, cassette.divergences)
            return True
        print_outcomes(self._out, session.calls)
        self._out.line(f"  answer: {answer}", "dim")
        self._account(session)
        print_divergences(self._out, session.divergences)
        self._marks(path)
        return bool(session.divergences)

    def _marks(self, path: Path) -> None:
        """Say what a backend has to search for, read off the exported file."""
        marked = [
            span for span in load_trace(path).spans if span.attributes.get(DIVERGED_ATTR) is True
        ]
        own = [span for span in marked if span.name == DIVERGENCE_SPAN]
        self._out.line()
        self._out.line(
            f"  {counted(len(marked), 'span')} of {path.name} carry {DIVERGED_ATTR}=true, "
            f"{len(own)} of them with a link to the recorded call"
        )

    def _run(self, cassette: Cassette, instructions: str, *, live: bool = False) -> str:
        """Run the agent behind the cassette; the traced wrappers outside, so that the replay has spans too."""
        llm = wrap_llm(cassette.wrap_llm(agent.StandInModel() if live else None))
        tools: dict[str, agent.Tool] = {
            "lookup_order": wrap_tool(cassette.wrap_tool(agent.lookup_order)),
            "refund": wrap_tool(cassette.wrap_tool(agent.refund)),
        }
        return agent.refund_agent(agent.QUESTION, llm, tools, instructions=instructions)

    def _account(self, session: Session) -> None:
        totals = session.summary
        good = not totals.diverged and not totals.missed and not totals.unplayed
        self._out.spans(
            "  ",
            ("identical" if good else "diverged", "good" if good else "bad"),
            f": served {totals.served}, live {totals.live}, missed {totals.missed}, unplayed {totals.unplayed}",
        )

    def _heading(self, number: int, title: str, rest: str) -> None:
        if number > 1:
            self._out.line()
        self._out.spans((f"{number}. {title}", "heading"), f": {rest}")
