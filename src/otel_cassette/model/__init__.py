"""The data of the package: messages, requests, responses, entries, spans. No behaviour of a replay."""
