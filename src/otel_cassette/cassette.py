"""`Cassette`: what users hold. Recording, playback, files and sessions over the parts below.

Lives here: the facade and its argument checks. Not here: any rule of matching (`engine/`), of the
file (`document/`) or of traces (`assemble/`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar, overload

from otel_cassette.assemble import Assembly
from otel_cassette.clients.llm import CassetteLLM
from otel_cassette.clients.tools import ToolWrapping
from otel_cassette.clients.tracing import retrace, traced_function
from otel_cassette.diff import ReplayDivergence
from otel_cassette.document import (
    FileClaim,
    read_document,
    record_key,
    write_atomically,
    write_lines,
)
from otel_cassette.engine import CallOutcome
from otel_cassette.errors import CassetteError, CassetteFormatError
from otel_cassette.keys import ComparisonRules
from otel_cassette.keys.rules import NormalizeRule
from otel_cassette.model.entry import (
    KINDS,
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
from otel_cassette.otel.source import CassetteSource
from otel_cassette.otel.spans import WATCHER
from otel_cassette.redaction import DEFAULT_RULES, RedactionRule, Redactor, RuleLike, mask_call
from otel_cassette.session import Playback, PlaybackOptions, Session, SessionBlock
from otel_cassette.session.network import NetworkGuard
from otel_cassette.session.provider_keys import ProviderKeys
from otel_cassette.store import Journal, in_file_order
from otel_cassette.traces import assemble_trace, check_playable, read_run

JSON = Any
PathLike = Any
F = TypeVar("F", bound=Callable[..., Any])
_NEVER = object()
MODES: tuple[CassetteMode, ...] = ("record", "strict", "lenient", "fallthrough")


class Cassette:
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

    def __init__(
        self,
        entries: Iterable[CassetteEntry] = (),
        *,
        mode: CassetteMode = "record",
        record_new: bool = False,
        metadata: Mapping[str, JSON] | None = None,
        match: MatchRule = "index",
        kinds: Iterable[EntryKind] | None = None,
        ignore: Iterable[str] = (),
        normalize: Iterable[NormalizeRule] = (),
        redact: Iterable[RuleLike] = DEFAULT_RULES,
        record_errors: bool = False,
        allow_unverified: bool = False,
        allow_partial: bool = False,
    ) -> None:
        self.metadata: dict[str, JSON] = dict(metadata or {})
        self.report: Any = None
        self._rules = ComparisonRules(ignore, normalize)
        rules = (redact,) if isinstance(redact, str) else tuple(redact)
        self._redactor = Redactor(rules) if rules else None
        self._options = PlaybackOptions(
            mode=check_mode(mode),
            match=check_match(match),
            kinds=check_kinds(kinds),
            record_new=record_new,
            play_failures=record_errors,
            allow_unverified=allow_unverified,
            allow_partial=allow_partial,
        )
        records = self._masked(entries)
        check_unique(records)
        self._journal = Journal(records)
        self._own = self._playback(self._options)
        self._last_session: Session | None = None
        self._header_extra: dict[str, JSON] = {}
        self._lock = threading.Lock()
        self._source: str | None = None

    def __repr__(self) -> str:
        made = self._journal.assembled()
        return f"<Cassette mode={self.mode!r} entries={len(made.entries)} failures={len(made.failures)}>"

    def _playback(self, options: PlaybackOptions) -> Playback:
        return Playback(
            self._journal,
            options,
            rules=self._rules,
            redactor=self._redactor,
            watcher=WATCHER,
        )

    # -- what is recorded -----------------------------------------------------------------------

    @property
    def entries(self) -> list[CassetteEntry]:
        """Top-level calls in recording order."""
        return [_with_key(entry) for entry in self._journal.assembled().entries]

    def entries_of(self, kind: EntryKind) -> list[CassetteEntry]:
        """Return the top-level calls of one kind by index."""
        return sorted((e for e in self.entries if e.kind == kind), key=lambda e: e.index)

    @property
    def nested(self) -> list[CassetteEntry]:
        """Calls made inside a tool or retrieval, with their `parent`."""
        return [_with_key(entry) for entry in self._journal.assembled().nested]

    @property
    def failures(self) -> list[CassetteFailure]:
        """Failed calls with their place."""
        return [_with_key(failure) for failure in self._journal.assembled().failures]

    # -- playback -------------------------------------------------------------------------------

    @property
    def mode(self) -> CassetteMode:
        """The mode of the cassette's own wrappers; assigning it keeps the counters."""
        return self._own.mode

    @mode.setter
    def mode(self, mode: CassetteMode) -> None:
        self._own.mode = check_mode(mode)

    @property
    def redact(self) -> tuple[RedactionRule, ...]:
        """The redaction rules in force: of a loaded cassette, those it was recorded with."""
        return () if self._redactor is None else self._redactor.rules

    @property
    def record_new(self) -> bool:
        """Whether `fallthrough` stores what went live."""
        return self._own.options.record_new

    @property
    def match(self) -> str:
        """The match rule of the cassette's own wrappers."""
        return self._own.options.match

    @property
    def rules(self) -> ComparisonRules:
        """The comparison rules in force: `ignore` and `normalize`, the header's among them."""
        return self._rules

    @property
    def redactor(self) -> Redactor | None:
        """The redaction rules in force; None for none."""
        return self._redactor

    @property
    def calls(self) -> list[CallOutcome]:
        """One outcome for each call of the last session, else of the cassette's own wrappers."""
        return self._shown.calls

    @property
    def divergences(self) -> list[ReplayDivergence]:
        """The divergences of the last session, else of the cassette's own wrappers."""
        return self._shown.divergences

    @property
    def first_divergence(self) -> ReplayDivergence | None:
        """The first divergence; None without any."""
        return next(iter(self.divergences), None)

    @property
    def unplayed(self) -> list[CassetteEntry]:
        """Playable entries that no call was answered with or diverged from."""
        return [_with_key(entry) for entry in self._shown.unplayed]

    @property
    def _shown(self) -> Session | Playback:
        return self._last_session if self._last_session is not None else self._own

    def rewind(self) -> None:
        """Start over: nothing is played; recording after it replaces by index."""
        self._own.rewind()
        self._last_session = None

    def own_playback(self) -> Playback:
        """Return the playback of the cassette's own wrappers."""
        return self._own

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
        redact = () if self._redactor is None else tuple(self._redactor.to_header())
        return CassetteHeader.model_validate(
            {
                **self._header_extra,
                "metadata": self.metadata
                if self._redactor is None
                else self._redactor.json(self.metadata),
                "ignore": self._rules.ignore,
                "normalize": self._rules.to_header(),
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
        self.report = assembly.report

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

    def _masked(
        self, records: Iterable[CassetteEntry | CassetteFailure]
    ) -> list[CassetteEntry | CassetteFailure]:
        if self._redactor is None:
            return list(records)
        return [mask_record(record, self._redactor) for record in records]


class RecordingBlock(SessionBlock):
    """The block of `Cassette.recording`: claims the file, saves at the end."""

    def __init__(
        self, cassette: Cassette, session: Session, path: PathLike | None, *, span: bool
    ) -> None:
        super().__init__(session, span=span, on_exit=self._save)
        self._cassette = cassette
        self._path = path
        self._claim = None if path is None else FileClaim(path)
        self._spooled: SpooledRecording | None = None
        self._saved = False

    def __enter__(self) -> Session:
        if self._claim is not None:
            self._claim.__enter__()
        session = super().__enter__()
        # From the first call on, it is noted when and where calls are made.
        CassetteSource.of(session.playback.journal, session.playback.redactor)
        if self._path is not None:
            self._spooled = self._cassette._spooled(self._path)  # noqa: SLF001 - as in _save
            self._spooled.start()
        return session

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(exc_type, exc, traceback)
        finally:
            source = self._cassette._journal.source  # noqa: SLF001 - as in _save
            if source is not None and source.report.spans:
                self._cassette._journal.assembled()  # noqa: SLF001 - joins calls and spans
                self._cassette.report = source.report
            if self._spooled is not None:
                self._spooled.finish(saved=self._saved)
            if self._claim is not None:
                self._claim.__exit__(None, None, None)

    def _save(self, _session: Session) -> None:
        if self._path is not None:
            self._cassette._write(self._path)  # noqa: SLF001 - the block is the cassette's own
            self._saved = True


def mask_record(
    record: CassetteEntry | CassetteFailure, redactor: Redactor
) -> CassetteEntry | CassetteFailure:
    """Return a record without its secrets; the same object where it has none."""
    parts = {
        name: getattr(record, name, None) for name in ("request", "response", "yields", "error")
    }
    changed, _ = mask_call(redactor, parts)
    return record.model_copy(update=changed) if changed else record


def _with_key(record: Any) -> Any:
    """Fill in the key of a record the first time it is shown; a stored one never counts.

    A copy of a record with another request carries the mark of the first: that it is of another
    object tells.
    """
    if record.__dict__.get("_keyed", _NEVER) is not record.request:
        record.__dict__["key"] = record_key(record)
        record.__dict__["_keyed"] = record.request
    return record


def check_mode(mode: Any) -> CassetteMode:
    """Return *mode*, or raise ValueError."""
    if mode not in MODES:
        msg = f"mode={mode!r}: one of {', '.join(MODES)}"
        raise ValueError(msg)
    result: CassetteMode = mode
    return result


def check_match(match: Any) -> MatchRule:
    """Return *match*, or raise ValueError."""
    if match not in ("index", "content"):
        msg = f"match={match!r}: 'index' or 'content'"
        raise ValueError(msg)
    result: MatchRule = match
    return result


def check_kinds(kinds: Iterable[str] | None) -> frozenset[str] | None:
    """Return *kinds* as a set, or raise ValueError."""
    if kinds is None:
        return None
    result = frozenset((kinds,) if isinstance(kinds, str) else kinds)
    unknown = result - set(KINDS)
    if unknown:
        msg = (
            f"kinds={sorted(result)!r}: {', '.join(sorted(unknown))} is none of {', '.join(KINDS)}"
        )
        raise ValueError(msg)
    return result


def check_unique(records: Iterable[CassetteEntry | CassetteFailure]) -> None:
    """Raise CassetteFormatError when two entries share a (parent, kind, index)."""
    seen: set[Any] = set()
    for record in records:
        if not isinstance(record, CassetteEntry):
            continue
        place = (record.parent, record.kind, record.index)
        if place in seen:
            reason = (
                f"two entries of kind {record.kind!r} have index {record.index}; each needs its own"
            )
            raise CassetteFormatError(reason=reason)
        seen.add(place)
