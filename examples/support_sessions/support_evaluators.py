"""Two evaluators: plain functions of the agent's output and the recorded session."""

from __future__ import annotations

from otel_cassette.harness import Fixture


def mentions(output: str, fixture: Fixture) -> float:
    """Share of the facts that the customer has to be told."""
    facts = fixture.expected["facts"]
    return sum(fact in output for fact in facts) / len(facts)


def honest_about_refunds(output: str, fixture: Fixture) -> bool:
    """Whether a refund is promised exactly where one was made."""
    was_made = any(step.name == "refund" for step in fixture.steps)
    return ("have refunded" in output) == was_made
