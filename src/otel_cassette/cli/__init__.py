"""The command `otel-cassette`: one module for each of its commands.

Lives here: its entry point. Not here: anything that a program could not call as well; commands only
read arguments and print.
"""

from otel_cassette.cli.app import main

__all__ = ["main"]
