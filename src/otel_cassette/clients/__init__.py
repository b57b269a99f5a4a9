"""How calls are made: wrappers behind a cassette, tracing wrappers, HTTP transports."""
