"""The redaction rules that are on by default.

Lives here: patterns of credentials whose form is public, with their revisions. Not here: how rules
are applied (`redactor.py`).

A changed pattern is a new revision beside the old one, which stays: a cassette names the revisions
it was recorded with, and its replay applies those. Forms: the providers' own documentation and
their entries in GitHub's secret scanning patterns
(https://docs.github.com/en/code-security/secret-scanning/introduction/supported-secret-scanning-patterns).

How the patterns are kept linear: each begins with a plain literal (which `re` finds fast), the
boundary before it is looked at afterwards, and every look-ahead is bounded.
"""

from __future__ import annotations

from otel_cassette.redaction.rules import RedactionRule

_TOKEN_RUN = 20
_DIGIT_AHEAD = r"(?=[A-Za-z_-]{0,64}[0-9])"


def _at_start(prefix: str) -> str:
    r"""Return a regex for *prefix* where no word goes on before it.

    In JSON inside a text the character before may be the end of an escape (`\n`, `\uff1a`), in a
    URL that of a percent escape.
    """
    before = (r"\\[nrtbf]", r"\\u[0-9A-Fa-f]{4}", r"%[0-9A-Fa-f]{2}")
    escaped = "|".join(f"(?<={escape}{prefix})" for escape in before)
    return f"{prefix}(?:(?<![A-Za-z0-9_-]{prefix})|{escaped})"


def _token(name: str, pattern: str, *literals: str) -> RedactionRule:
    return RedactionRule(name, pattern, literals=literals, min_run=_TOKEN_RUN, revision=1)


def _either(*patterns: str) -> str:
    return "|".join(patterns)


_NAMES = _either(
    r"pass(?:word|wd)",
    r"(?:x-)?api[ _-]?key",
    r"client[_-]?secret",
    r"secret[_-]?(?:access[_-]?)?key",
    r"(?:access|refresh)[_-]?token",
    r"account[_-]?key",
)
# A value is taken for a secret when a digit or a sign stands early in it: words are not
# ("required", "None", "string"), nor are calls and templates (`get_key(1)`, `${KEY}`).
_QUOTED = r"""\\{0,8}["'](?P<secret_quoted>(?=[^\s"'\\]{0,63}[0-9!@#$%^&*+=~?])[^\s"'\\]{6,})(?=\\{0,8}["'])"""
# Without blanks between words, the sentence that follows begins with one of the signs left out here.
_BARE_CHAR = r"""[^\s"'\\,;&<>()\[\]{}$\u2010-\u206f\u3000-\uffef]"""
_BARE = rf"(?![A-Za-z_][\w.]{{0,63}}[(\[])(?P<secret_bare>(?={_BARE_CHAR}{{0,63}}[0-9]){_BARE_CHAR}{{6,}})"

_RULES = (
    RedactionRule(
        "private-key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----)[\s\S]){0,20000}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        # cut before its end: the lines of base64 that there are
        r"|(?:(?:\s|\\{1,8}[nr]){0,4}[A-Za-z0-9+/=]{16,100}){0,500})",
        literals=("PRIVATE KEY",),
        revision=1,
    ),
    _token("anthropic-key", r"sk-ant-[A-Za-z0-9_-]{20,}", "sk-ant-"),
    _token(
        "openai-key",  # and the services that took over its form: sk-or-v1- (OpenRouter), sk-lf- (Langfuse), ...
        _at_start("sk-")
        + _DIGIT_AHEAD
        + r"(?:(?:proj|svcacct|admin|None|lf)-[A-Za-z0-9_-]{20,}|(?:or-v1-)?[A-Za-z0-9]{20,})",
        "sk-",
    ),
    _token(
        "google-key",
        _either(
            r"AIza[A-Za-z0-9_-]{35}",
            r"GOCSPX-[A-Za-z0-9_-]{28}",
            r"ya29\.[A-Za-z0-9_-]{30,}",
        ),
        "AIza",
        "GOCSPX-",
        "ya29.",
    ),
    _token(
        # Before the id is masked: a bare secret key is known by standing close behind it.
        "aws-secret-key",
        r"A[KS]IA[A-Z2-7]{16}(?![A-Za-z0-9])[\s\S]{1,80}?(?<![A-Za-z0-9/+])(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        "AKIA",
        "ASIA",
    ),
    _token(
        "aws-access-key-id",
        _either(
            _at_start("AKIA") + r"[A-Z2-7]{16}(?![A-Za-z0-9])",
            _at_start("ASIA") + r"[A-Z2-7]{16}(?![A-Za-z0-9])",
            # Bedrock API keys are base64 themselves: within a longer run of it (a picture) it is none.
            _at_start("ABSK") + r"[A-Za-z0-9+/]{80,200}={0,2}(?![A-Za-z0-9+/]{64})",
        ),
        "AKIA",
        "ASIA",
        "ABSK",
    ),
    _token("azure-key", r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}", "JQQJ99"),
    _token(
        "github-token",
        _either(
            _at_start("gh[pousr]_") + r"[A-Za-z0-9]{36,255}", r"github_pat_[A-Za-z0-9_]{36,255}"
        ),
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    _token("gitlab-token", r"glpat-[A-Za-z0-9_-]{20,}", "glpat-"),
    _token(
        "slack-token",
        _either(
            _at_start("xox[a-z]") + r"(?:\.xox[a-z])?-[A-Za-z0-9-]{15,}",
            r"xapp-[0-9]-[A-Za-z0-9-]{15,}",
            r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_-]{20,})",
        ),
        *("xox", "xapp-", "hooks.slack.com/"),
    ),
    _token(
        "stripe-key",
        _either(r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}", r"whsec_[A-Za-z0-9+/]{24,}={0,2}"),
        *("k_live_", "k_test_", "whsec_"),
    ),
    _token("huggingface-token", _at_start("hf_") + r"[A-Za-z0-9]{30,}", "hf_"),
    _token("groq-key", _at_start("gsk_") + r"[A-Za-z0-9]{40,}", "gsk_"),
    _token("xai-key", _at_start("xai-") + r"[A-Za-z0-9]{60,}", "xai-"),
    _token(
        "provider-key",
        _either(
            _at_start("pplx-") + r"[A-Za-z0-9]{40,}",  # Perplexity
            _at_start("r8_") + r"[A-Za-z0-9]{37,}",  # Replicate
            _at_start("tvly-") + r"(?:dev-|prod-)?[A-Za-z0-9]{20,}",  # Tavily
            _at_start("nvapi-") + r"[A-Za-z0-9_-]{40,}",  # NVIDIA
            _at_start("csk-") + r"[a-z0-9]{40,}",  # Cerebras
            _at_start("pcsk_") + r"[A-Za-z0-9_]{40,}",  # Pinecone
            _at_start("lsv2_") + r"(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",  # LangSmith
            _at_start("dapi") + r"[0-9a-f]{32}(?:-[0-9])?(?![A-Za-z0-9])",  # Databricks
        ),
        *("pplx-", "r8_", "tvly-", "nvapi-", "csk-", "pcsk_", "lsv2_", "dapi"),
    ),
    _token(
        "package-token",
        _either(
            r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])",
            r"pypi-AgE[A-Za-z0-9_-]{40,}",
            r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",  # SendGrid
        ),
        *("npm_", "pypi-AgE", "SG."),
    ),
    _token(
        "jwt",
        _at_start("eyJ") + r"[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*"
        # encrypted (JWE): five parts, of which the key may be empty
        r"|[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})",
        "eyJ",
    ),
    RedactionRule(
        "bearer-token",
        r"(?:[Bb]earer|BEARER)(?: {1,4}|%20|\+)(?P<secret>(?=[A-Za-z._~+/=-]{0,64}[0-9])[A-Za-z0-9._~+/=-]{16,})",
        literals=("earer ", "earer%20", "earer+", "BEARER"),
        revision=1,
    ),
    RedactionRule(
        "basic-auth",
        r"""authorization\\{0,8}["']?\s{0,4}[:=]\s{0,4}\\{0,8}["']?basic\s{1,4}(?P<secret>[A-Za-z0-9+/]{8,}={0,2})""",
        fields=("authorization", "proxy-authorization"),
        values=r"basic\s{1,4}(?P<secret>[A-Za-z0-9+/]{8,}={0,2})",
        literals=("authorization",),
        ignore_case=True,
        revision=1,
    ),
    RedactionRule(
        "url-credentials",
        r"""://[^\s/:@"'<>\\]{0,100}:(?P<secret>[^\s/@"'<>\\]{1,300})@""",
        literals=("://",),
        revision=1,
    ),
    RedactionRule(
        "credential",
        rf"""(?:{_NAMES})\\{{0,8}}["']?\s{{0,4}}(?:=>|[:=])\s{{0,4}}(?:{_QUOTED}|{_BARE})""",
        fields=(
            *(
                "password",
                "passwd",
                "api_key",
                "apikey",
                "api-key",
                "x-api-key",
                "client_secret",
                "clientsecret",
            ),
            *(
                "secret_key",
                "secretkey",
                "secret_access_key",
                "secretaccesskey",
                "aws_secret_access_key",
            ),
            *(
                "access_token",
                "accesstoken",
                "refresh_token",
                "refreshtoken",
                "account_key",
                "accountkey",
            ),
        ),
        values=r"(?=\S{0,63}[0-9!@#$%^&*+=~?])\S{6,}",
        literals=(
            *("passw", "apikey", "api_key", "api-key", "api key", "secret"),
            *(
                "access_token",
                "access-token",
                "accesstoken",
                "refresh_token",
                "refresh-token",
                "refreshtoken",
            ),
            *("account_key", "account-key", "accountkey"),
        ),
        ignore_case=True,
        revision=1,
    ),
)

BUILTIN: dict[tuple[str, int], RedactionRule] = {
    (rule.name, rule.revision): rule for rule in _RULES
}
"""Every built-in rule that ever was, by name and revision."""

DEFAULT_RULES: tuple[RedactionRule, ...] = _RULES
"""The newest revision of each built-in rule, in the order they are applied."""
