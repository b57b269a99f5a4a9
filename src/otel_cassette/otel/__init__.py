"""OpenTelemetry parts: processors, exporter, sampler, spans of our own."""
