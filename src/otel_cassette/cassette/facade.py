"""`Cassette`: what users hold. Wrappers, sessions and files over the parts below.

Lives here: the facade. Not here: any rule of matching (`engine/`), of the file (`document/`) or of
traces (`assemble/`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

from otel_cassette.assemble import Assembly
from otel_cassette.cassette.block import RecordingBlock
from otel_cassette.cassette.options import check_kinds, check_match, check_mode
from otel_cassette.cassette.state import CassetteState
from otel_cassette.clients.llm import CassetteLLM
from otel_cassette.clients.tools import ToolWrapping
from otel_cassette.clients.tracing import retrace, traced_function
from otel_cassette.document import (
    FileClaim,
    read_document,
    write_atomically,
    write_lines,
)
from otel_cassette.errors import CassetteError
from otel_cassette.keys import ComparisonRules
from otel_cassette.keys.rules import NormalizeRule
from otel_cassette.model.entry import (
    MODEL_KINDS,
    CassetteEntry,
    CassetteFailure,
    CassetteHeader,
    CassetteMode,
    EntryKind,
    MatchRule,
)
from otel_cassette.model.span import Trace
from otel_cassette.otel.journaling import SpooledRecording
from otel_cassette.otel.recover import recover_missing
from otel_cassette.redaction import DEFAULT_RULES, Redactor, RuleLike
from otel_cassette.session import PlaybackOptions, Session, SessionBlock
from otel_cassette.session.network import NetworkGuard
from otel_cassette.session.provider_keys import ProviderKeys
from otel_cassette.store import Journal, in_file_order
from otel_cassette.traces import assemble_trace, check_playable, read_run

JSON = Any
PathLike = Any
F = TypeVar("F", bound=Callable[..., Any])


class Cassette(CassetteState):
    """A recording of an agent's calls, and the place to record and replay them.

    Args:
        entries: Recorded calls to start with.
        mode: `record`, `strict`, `lenient` or `fallthrough`; may be assigned later.
        record_new: In `fallthrough`: store what went live, in place of the entry it diverged from.
        metadata: Saved in the header; `model` and `provider` are defaults for `wrap_llm`.
        match: `index` (place and request must agree) or `content` (any unplayed equal entry).
        kinds: Kinds that are played; others run for real and are only compared. None is all.
        ignore: JSON pointers into the canonical request that are not compared; `*` is one step.
        normalize: Patterns, `(pattern, replacement)` pairs or functions applied before comparing.
        redact: Redaction rules; `()` for none.
        record_errors: Play recorded failures of calls in place, instead of passing them over.
        allow_unverified: Serve by place what cannot be compared, flagged.
        allow_partial: Serve answers that are cut or redacted, flagged.

    Raises:
        ValueError: For an unknown mode, match rule or kind.
        CassetteFormatError: When two entries share a (parent, kind, index).
    """

    # -- wrappers -------------------------------------------------------------------------------

    def wrap_llm(
        self, client: Any = None, *, model: str | None = None, provider: str | None = None
    ) -> CassetteLLM:
        """Return a model client behind this cassette.

        Args:
            client: The real client, an object with `complete` or `acomplete`; needed to record and
                for fallthrough misses.
            model: Name of the model.
            provider: Name of the provider.

        Raises:
            TypeError: For a provider SDK's client; the message names the transport to use.
        """
        return CassetteLLM(self, client, model=model, provider=provider)

    @overload
    def wrap_tool(
        self,
        fn: F,
        /,
        *,
        name: str | None = None,
        restore: bool = False,
        ignore_args: Iterable[str] = (),
    ) -> F: ...
    @overload
    def wrap_tool(
        self,
        fn: None = None,
        /,
        *,
        name: str | None = None,
        restore: bool = False,
        ignore_args: Iterable[str] = (),
    ) -> Callable[[F], F]: ...
    def wrap_tool(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        restore: bool = False,
        ignore_args: Iterable[str] = (),
    ) -> Any:
        """Return a tool behind this cassette; also a decorator.

        Args:
            fn: Function, coroutine function, generator, async generator, or method.
            name: Name of the tool; `fn.__name__` by default.
            restore: Rebuild the annotated pydantic or dataclass type in playback; else the
                recorded JSON is given back.
            ignore_args: Parameters that are no arguments.

        Raises:
            CassetteError: When *ignore_args* names no parameter, or there is no type to restore.
        """
        return self._wrap("tool", fn, name, restore=restore, ignore_args=ignore_args)

    @overload
    def wrap_retriever(self, fn: F, /, *, name: str | None = None) -> F: ...
    @overload
    def wrap_retriever(
        self, fn: None = None, /, *, name: str | None = None
    ) -> Callable[[F], F]: ...
    def wrap_retriever(
        self, fn: Callable[..., Any] | None = None, /, *, name: str | None = None
    ) -> Any:
        """Return a retriever behind this cassette; also a decorator. As `wrap_tool`."""
        return self._wrap("retrieval", fn, name)

    def _wrap(
        self,
        kind: EntryKind,
        fn: Any,
        name: str | None,
        *,
        restore: bool = False,
        ignore_args: Iterable[str] = (),
    ) -> Any:
        ignored = (ignore_args,) if isinstance(ignore_args, str) else tuple(ignore_args)

        def decorate(target: Any) -> Any:
            if isinstance(target, staticmethod | classmethod):
                return type(target)(decorate(target.__func__))
            traced = traced_function(target)
            inner = target if traced is None else traced.fn
            tool_name = name or (None if traced is None else traced.name)
            wrapped = ToolWrapping(
                inner, kind, self.own_playback, name=tool_name, restore=restore, ignore_args=ignored
            ).wrapper()
            return wrapped if traced is None else retrace(traced, wrapped, name=name)

        return decorate if fn is None else decorate(fn)

    def note_client(self, model: str | None, provider: str | None, *, real: bool) -> None:
        """Keep the first real client's model and provider as the recording's defaults."""
        if not real:
            return
        with self._lock:
            if model is not None:
                self.metadata.setdefault("model", model)
            if provider is not None:
                self.metadata.setdefault("provider", provider)

    # -- sessions -------------------------------------------------------------------------------

    def recording(self, path: PathLike | None = None, *, span: bool = False) -> RecordingBlock:
        """Return a block that records every wrapped call made in it, whatever its cassette.

        Args:
            path: Save here when the block ends without an exception; claimed while it is open.
            span: Also open the span `cassette.replay`.
        """
        options = self._option_copy(mode="record")
        return RecordingBlock(self, self._session(options), path, span=span)

    def replaying(
        self,
        *,
        mode: CassetteMode | None = None,
        match: MatchRule = "content",
        kinds: Iterable[EntryKind] | None = None,
        block_network: bool = False,
        allow_hosts: Iterable[str] = (),
        span: bool = True,
        span_content: bool | None = None,
        record_new: bool | None = None,
        allow_unverified: bool | None = None,
        allow_partial: bool | None = None,
    ) -> SessionBlock:
        """Return a block in which every wrapped call is answered from this cassette.

        Args:
            mode: The cassette's own by default, `record` becoming `strict`.
            match: Match rule of the session.
            kinds: Kinds that are played; the cassette's own by default.
            block_network: Refuse every connection but loopback, unix sockets and *allow_hosts*.
            allow_hosts: Hosts that pass.
            span: Open the span `cassette.replay`, which carries the totals.
            span_content: Whether marks may carry text of requests; else pointers and digests.
                None: unless the environment switches content capture off explicitly.
            record_new: As for `Cassette`; its own by default.
            allow_unverified: Likewise.
            allow_partial: Likewise.

        Returns:
            A context manager; `as` gives the session, whose `summary` says served, live, missed,
            unplayed and ties.
        """
        chosen = check_mode(mode) if mode is not None else self.mode
        options = self._option_copy(
            mode="strict" if chosen == "record" else chosen,
            match=check_match(match),
            play_failures=True,
            kinds=check_kinds(kinds) if kinds is not None else self._own.options.kinds,
            record_new=record_new,
            allow_unverified=allow_unverified,
            allow_partial=allow_partial,
        )
        guard = NetworkGuard(tuple(allow_hosts)) if block_network else None
        return SessionBlock(
            self._session(options),
            guard=guard,
            keys=ProviderKeys(self._providers()),
            span=span,
            source=self._source,
            span_content=span_content,
        )

    def _providers(self) -> Iterator[str | None]:
        """Yield the providers that the recording names, as far as a first look tells."""
        yield self.metadata.get("provider")
        for entry in self._journal.assembled().entries[:1000]:
            if entry.kind in MODEL_KINDS and isinstance(entry.request, dict):
                yield entry.request.get("provider")

    def _option_copy(self, **changes: Any) -> PlaybackOptions:
        own = self._own.options
        fields = {name: getattr(own, name) for name in PlaybackOptions.__dataclass_fields__}
        return PlaybackOptions(**{**fields, **{k: v for k, v in changes.items() if v is not None}})

    def _session(self, options: PlaybackOptions) -> Session:
        session = Session(self, self._playback(options))
        self._last_session = session
        return session

    # -- files ----------------------------------------------------------------------------------

    def save(self, path: PathLike, *, provenance: bool = True) -> int:
        """Write the cassette to *path*, whole or not at all.

        Args:
            path: File; its folders are made, an existing file is replaced.
            provenance: Whether ids, times and latencies, which change on every recording, are
                written.

        Returns:
            Number of top-level entries written.

        Raises:
            CassetteWriteError: When it cannot be written; the file there is unchanged.
        """
        with FileClaim(path):
            return self._write(path, provenance=provenance)

    def _write(self, path: PathLike, *, provenance: bool = True) -> int:
        made = self._journal.assembled()
        records = in_file_order(made.entries, made.nested, made.failures)
        write_atomically(path, write_lines(self._header(), records, provenance=provenance))
        return len(made.entries)

    def _spooled(self, path: PathLike) -> SpooledRecording:
        return SpooledRecording(self._journal, self._redactor, path, self._header())

    def _header(self) -> CassetteHeader:
        try:
            normalize = self._rules.to_header()
        except ValueError as error:
            raise CassetteError(str(error)) from error
        redact = () if self._redactor is None else tuple(self._redactor.to_header())
        return CassetteHeader.model_validate(
            {
                **self._header_extra,
                "metadata": self.metadata
                if self._redactor is None
                else self._redactor.json(self.metadata),
                "ignore": self._rules.ignore,
                "normalize": normalize,
                "redact": redact,
            }
        )

    @classmethod
    def load(
        cls,
        path: PathLike,
        *,
        mode: CassetteMode = "strict",
        record_new: bool = False,
        metadata: Mapping[str, JSON] | None = None,
        match: MatchRule = "index",
        kinds: Iterable[EntryKind] | None = None,
        ignore: Iterable[str] = (),
        normalize: Iterable[NormalizeRule] = (),
        redact: Iterable[RuleLike] | None = None,
        record_errors: bool = False,
        allow_unverified: bool = False,
        allow_partial: bool = False,
    ) -> Cassette:
        """Return the cassette saved at *path*; the other arguments are those of `Cassette`.

        Where there is none, but a recording of it whose process died, that is recovered.

        Rules of the header are in force; *ignore* and *normalize* add to them, and *normalize* has
        to hold the functions that the header names. The redaction that was in force at recording
        is applied to live requests; *redact* replaces it. A file that names none has the
        default rules applied to what it holds, too.

        Raises:
            FileNotFoundError: When there is no such file.
            CassetteFormatError: When it is no cassette; says file, line and reason.
            CassetteError: When a normalising function of the header was not given.
        """
        recover_missing(path)
        document = read_document(path)
        header = document.header
        try:
            rules = ComparisonRules.from_header(
                (*header.ignore, *ignore), header.normalize, given=normalize
            )
            redactor = None
            if redact is None and "redact" in header.model_fields_set:
                redactor = Redactor.from_header(header.redact)
        except (LookupError, ValueError) as error:
            msg = f"{path}: {error.args[0] if error.args else error}"
            raise CassetteError(msg) from error
        cassette = cls(
            mode=mode,
            record_new=record_new,
            metadata={**header.metadata, **(metadata or {})},
            match=match,
            kinds=kinds,
            redact=DEFAULT_RULES if redact is None else redact,
            record_errors=record_errors,
            allow_unverified=allow_unverified,
            allow_partial=allow_partial,
        )
        cassette._adopt(document.records, header, rules, redactor, str(path))
        return cassette

    @classmethod
    def from_trace(
        cls,
        trace: Any,
        *,
        mode: CassetteMode = "strict",
        record_new: bool = False,
        trace_id: str | None = None,
        merge: bool = False,
        metadata: Mapping[str, JSON] | None = None,
        match: MatchRule = "index",
        kinds: Iterable[EntryKind] | None = None,
        ignore: Iterable[str] = (),
        normalize: Iterable[NormalizeRule] = (),
        redact: Iterable[RuleLike] = DEFAULT_RULES,
        record_errors: bool = False,
        allow_unverified: bool = False,
        allow_partial: bool = False,
    ) -> Cassette:
        """Return a cassette of the calls in an exported trace.

        Args:
            trace: A `Trace`, several (taken as one run), or anything `read_traces` takes: a path, a
                list of paths, a glob, bytes, a dict, ...
            mode: As for `Cassette`; the other arguments not named here likewise.
            record_new: Likewise.
            trace_id: The run, where the source holds several.
            merge: Take all that the source holds as one run.
            metadata: Added to what the trace says of itself.
            match: As for `Cassette`.
            kinds: Likewise.
            ignore: Likewise.
            normalize: Likewise.
            redact: Rules applied to what the trace holds, and to live requests.
            record_errors: As for `Cassette`.
            allow_unverified: Likewise.
            allow_partial: Likewise.

        Returns:
            The cassette; `report` says of every call span whether it can be replayed, and why not.
            A source without call spans gives an empty cassette.

        Raises:
            CassetteFormatError: When the source is no trace, holds several runs and none is named,
                or has call spans of which none can be played.
        """
        run = read_run(trace, trace_id=trace_id, merge=merge)
        assembly = assemble_trace(run)
        source = run.source if isinstance(run, Trace) else None
        check_playable(assembly, source)
        cassette = cls(
            mode=mode,
            record_new=record_new,
            metadata={**assembly.metadata, **(metadata or {})},
            match=match,
            kinds=kinds,
            ignore=ignore,
            normalize=normalize,
            redact=redact,
            record_errors=record_errors,
            allow_unverified=allow_unverified,
            allow_partial=allow_partial,
        )
        cassette._take(assembly, source)
        return cassette

    def _take(self, assembly: Assembly, source: str | None) -> None:
        """Take over what a trace holds, masked."""
        records: list[CassetteEntry | CassetteFailure] = [
            *assembly.entries,
            *assembly.nested,
            *assembly.failures,
        ]
        records = self._masked(records)
        self._journal.replace(records)
        self._own = self._playback(self._options)
        self._source = assembly.metadata.get("trace_id") or source
        self._set_report(assembly.report)

    def _adopt(
        self,
        records: list[CassetteEntry | CassetteFailure],
        header: CassetteHeader,
        rules: ComparisonRules,
        redactor: Redactor | None,
        source: str,
    ) -> None:
        """Take over what a file holds."""
        self._rules = rules
        if redactor is not None:
            self._redactor = redactor if redactor.rules else None
        else:
            # Written by hand, in an older shape, or to be masked anew: what is compared, shown and
            # saved again is masked on both sides.
            records = self._masked(records)
        self._header_extra = dict(header.model_extra or {})
        self._journal = Journal(records)
        self._own = self._playback(self._options)
        self._source = source
