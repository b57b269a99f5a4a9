"""`otel-cassette demo`: the main job in a minute; no key, no network.

Lives here: its arguments and its files. Not here: what it tells (`story.py`).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from otel_cassette.cli.arguments import add_match
from otel_cassette.cli.output import Output

_MODES = ("lenient", "strict", "fallthrough")


def add_parser(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "demo",
        help="record an agent, replay it, change one prompt line and see where it departs",
        description="A small refund agent is recorded through OpenTelemetry, replayed from the exported trace, "
        "and replayed again with one line of its prompt changed. Needs no key and no network.",
    )
    parser.add_argument(
        "--keep", metavar="DIR", help="keep the traces and the cassette in this folder"
    )
    parser.add_argument(
        "--otlp", metavar="URL", type=_url, help="also send the spans to this OTLP/HTTP backend"
    )
    parser.add_argument(
        "--mode",
        choices=_MODES,
        default="lenient",
        help="what the replay with the changed prompt does with a call that departs: serve the recorded answer "
        "all the same (lenient, the default), stop (strict), or make the real call (fallthrough)",
    )
    add_match(parser)
    parser.set_defaults(run=run)


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        msg = f"{text!r} is no http:// or https:// address, for instance http://localhost:4318"
        raise argparse.ArgumentTypeError(msg)
    return text


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Run the command."""
    if arguments.keep is not None:
        folder = Path(arguments.keep)
        folder.mkdir(parents=True, exist_ok=True)
        return _tell(arguments, out, folder)
    with tempfile.TemporaryDirectory(prefix="otel-cassette-demo-") as temporary:
        return _tell(arguments, out, Path(temporary))


def _tell(arguments: argparse.Namespace, out: Output, folder: Path) -> int:
    # The demo's own parts set up an OpenTelemetry SDK; no other command should wait for that import.
    from otel_cassette.cli.demo.story import (  # noqa: PLC0415 - see above
        CHANGED,
        RECORDED,
        Story,
    )
    from otel_cassette.cli.demo.telemetry import SERVICE, Telemetry  # noqa: PLC0415 - see above

    telemetry = Telemetry(folder, arguments.otlp)
    story = Story(out, folder, telemetry, mode=arguments.mode, match=arguments.match)
    recorded = story.record()
    identical = story.replay(recorded)
    diverged = story.change(recorded)
    sent = telemetry.finish()
    out.line()
    if arguments.otlp:
        out.line(
            f"{sent} spans sent to {arguments.otlp}: search service {SERVICE} for replay_diverged=true"
        )
    if arguments.keep is not None:
        out.line(f"kept in {folder}; compare the two exported traces yourself:")
        out.line(f"  otel-cassette diff {folder / RECORDED} {folder / CHANGED}")
    # Anything else than this story is a fault of the installation: it must not pass for a success.
    return 0 if identical and diverged else 1
