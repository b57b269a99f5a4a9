"""The redaction rules: what they mask, what they leave, and what they promise.

The secrets are generated here, in the forms that the providers document; none of them is real.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_cassette.errors import CassetteFormatError
from otel_cassette.redaction import DEFAULT_RULES, RedactionRule, Redactor

_random = random.Random(20261129)
_ALNUM = string.ascii_letters + string.digits
_BASE64 = _ALNUM + "+/"
_URLSAFE = _ALNUM + "_-"


def _chars(alphabet: str, count: int) -> str:
    # The first is a digit: random keys hold one, and a short one drawn here might not.
    return "7" + "".join(_random.choice(alphabet) for _ in range(count - 1))


def _hex(count: int) -> str:
    return _chars("0123456789abcdef", count)


def _part(data: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")


def _pem(kind: str) -> str:
    lines = "\n".join(_chars(_BASE64, 64) for _ in range(12))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


_AWS_SECRET = _chars(_BASE64, 40)
_BASIC = base64.b64encode(b"svc-refunds:Tr0ub4dor&3").decode()

# (text, the part of it that must not survive)
SECRETS: list[tuple[str, str]] = [
    *[
        (text, text)
        for text in (
            f"sk-{_chars(_ALNUM, 20)}T3BlbkFJ{_chars(_ALNUM, 20)}",
            f"sk-proj-{_chars(_URLSAFE, 156)}",
            f"sk-svcacct-{_chars(_URLSAFE, 120)}",
            f"sk-admin-{_chars(_URLSAFE, 120)}",
            f"sk-{_hex(32)}",
            f"sk-or-v1-{_hex(64)}",
            f"sk-lf-{_hex(8)}-{_hex(4)}-{_hex(4)}-{_hex(4)}-{_hex(12)}",
            f"sk-ant-api03-{_chars(_URLSAFE, 93)}AA",
            f"sk-ant-admin01-{_chars(_URLSAFE, 93)}AA",
            f"sk-ant-oat01-{_chars(_URLSAFE, 93)}AA",
            f"AIza{_chars(_URLSAFE, 35)}",
            f"GOCSPX-{_chars(_URLSAFE, 28)}",
            f"ya29.{_chars(_URLSAFE, 120)}",
            f"AKIA{''.join(_random.choice(string.ascii_uppercase + '234567') for _ in range(16))}",
            f"ASIA{''.join(_random.choice(string.ascii_uppercase + '234567') for _ in range(16))}",
            f"ABSK{_chars(_BASE64, 128)}",
            f"{_chars(_ALNUM, 52)}JQQJ99{_chars(_ALNUM, 26)}",
            *(f"gh{kind}_{_chars(_ALNUM, 36)}" for kind in "pousr"),
            f"github_pat_{_chars(_ALNUM, 22)}_{_chars(_ALNUM, 59)}",
            f"glpat-{_chars(_URLSAFE, 20)}",
            f"xoxb-{_chars(string.digits, 12)}-{_chars(string.digits, 13)}-{_chars(_ALNUM, 24)}",
            f"xoxp-{_chars(string.digits, 12)}-{_chars(string.digits, 12)}-{_hex(32)}",
            f"xapp-1-A{_chars(string.digits, 10)}-{_chars(string.digits, 13)}-{_hex(64)}",
            f"sk_live_{_chars(_ALNUM, 24)}",
            f"rk_live_{_chars(_ALNUM, 24)}",
            f"sk_test_{_chars(_ALNUM, 99)}",
            f"whsec_{_chars(_ALNUM, 32)}",
            f"hf_{_chars(string.ascii_letters, 34)}",
            f"gsk_{_chars(_ALNUM, 52)}",
            f"xai-{_chars(_ALNUM, 80)}",
            f"pplx-{_chars(_ALNUM, 48)}",
            f"r8_{_chars(_ALNUM, 37)}",
            f"tvly-dev-{_chars(_ALNUM, 32)}",
            f"nvapi-{_chars(_URLSAFE, 64)}",
            f"csk-{_chars(string.ascii_lowercase + string.digits, 48)}",
            f"pcsk_{_chars(_ALNUM, 6)}_{_chars(_ALNUM, 63)}",
            f"lsv2_pt_{_hex(32)}_{_hex(10)}",
            f"dapi{_hex(32)}",
            f"npm_{_chars(_ALNUM, 36)}",
            f"pypi-AgEIcHlwaS5vcmc{_chars(_URLSAFE, 120)}",
            f"SG.{_chars(_URLSAFE, 22)}.{_chars(_URLSAFE, 43)}",
            f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part({'sub': '42', 'exp': 1})}.{_chars(_URLSAFE, 43)}",
            (
                f"{_part({'alg': 'dir', 'enc': 'A128GCM'})}..{_chars(_URLSAFE, 16)}"
                f".{_chars(_URLSAFE, 64)}.{_chars(_URLSAFE, 22)}"
            ),
            _pem(""),
            _pem("RSA "),
            _pem("OPENSSH "),
            _pem("EC ").rpartition("\n")[0],  # cut before its end
        )
    ],
    *[
        (template.format(secret), secret)
        for template, secret in (
            ("Authorization: Bearer {}", _chars(_URLSAFE, 43)),
            ("authorization: bearer {}", _hex(40)),
            ("Authorization: Basic {}", _BASIC),
            ("postgres://svc:{}@db.internal:5432/orders", "Tr0ub4dor&3"),
            ("redis://:{}@cache:6379/0", _chars(_ALNUM, 24)),
            (
                "https://hooks.slack.com/services/{}",
                f"T{_chars(_ALNUM, 8)}/B{_chars(_ALNUM, 8)}/{_chars(_ALNUM, 24)}",
            ),
            ("AKIAIOSFODNN7EXAMPLE {}", _AWS_SECRET),
            ("aws_secret_access_key = {}", _AWS_SECRET),
            ("AZURE_OPENAI_API_KEY={}", _hex(32)),
            ("api-key: {}", _hex(32)),
            ("DB_PASSWORD='{}'", "c0rrect-horse"),
            ('{{"password": "{}"}}', "hunter22!"),
            ("client_secret={}&grant_type=client_credentials", _chars(_ALNUM, 40)),
            ("AccountName=x;AccountKey={};", _chars(_BASE64, 86)),
            ("refresh_token: {}", _chars(_URLSAFE, 64)),
        )
    ],
]

SURROUNDINGS = [
    "{}",
    "Use {} for the call, please.",
    "line one\n{}\nline three",
    'export KEY="{}"',
    "\u043a\u043b\u044e\u0447 \u2013 {} \u2013 ok",
    "\u5bc6\u94a5\uff1a{}\u3002",
]

NEAR_MISSES = [
    "Please refund order A-1003 (customer 00042), 20.50 EUR, by 2026-11-29.",
    "550e8400-e29b-41d4-a716-446655440000",
    "order 550e8400e29b41d4a716446655440000 was shipped",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit a0144ac9a45b31f8169c31f25bb218c4a81fad46",
    "call_0pNPcRyfDwPxBS9Uw1cHtpoY",
    "toolu_01A09q90qw90lq917835lq9",
    "chatcmpl-9sXGf5yQhQmNbT4vKzKx2YbVQp7Hc",
    "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
    "req_011CPDJ5cRZzHQ5wW5bBvpSv",
    "msg_01XFDUDYJgAACzvnptvVoYEL",
    "pi_3MtwBwLkdIwHu7ix28a3tqPa is the payment, cus_NffrFeUfNV2Hib the customer",
    "the sk-learn-contrib-imbalanced-v2-pipeline package",
    "a task-0123456789abcdef0123456789abcdef and a disk-abcdefghij0123456789ab",
    "Bearer of good news, the bearer understands responsibilities",
    "Use the Authorization header; basic authentication is not supported.",
    "Your password must hold at least 8 characters, one of them a digit.",
    "The password: required. The API key: see the docs. api_key: str = None",
    'api_key=os.environ["OPENAI_API_KEY_2"], password=${DB_PASSWORD_1}, password=get_secret1(name)',
    '{"type": "object", "properties": {"password": {"type": "string", "minLength": 8}}}',
    '{"errors": {"password": "is too short (8 at least)"}}',
    "max_tokens=1024, prompt_tokens: 123456, next_page_token=CAUQAA12345",
    "https://example.com:8080/orders/1003?ref=a@b.example and http://user@host/x",
    "https://medium.com/@someone/post-1234567890abcdef",
    "ssh://git@github.com:22/org/repo.git",
    "eyJvcmRlciI6ICJBLTEwMDMifQ== is base64 of a JSON object",
    "-----BEGIN CERTIFICATE-----\nMIIB7TCCAZOgAwIBAgIUZ\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYI\n-----END PUBLIC KEY-----",
    "the half_" + "a" * 40 + " and xai-powered, hf_hub, gsk_mode, r8_x",
    "AKIA is a prefix; AKIATOOSHORT and AIzaTooShort are no keys",
    base64.b64encode(bytes(range(256)) * 8).decode(),
    "Ünïcödé \u2013 東京 🎌 \u201cquotes\u201d",
]


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor()


def test_there_are_at_least_fifty_planted_secrets() -> None:
    assert len({secret for _, secret in SECRETS}) >= 50


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=[text[:18] for text, _ in SECRETS])
@pytest.mark.parametrize("surrounding", SURROUNDINGS)
def test_a_secret_is_masked_wherever_it_stands(
    redactor: Redactor, text: str, secret: str, surrounding: str
) -> None:
    if surrounding.startswith("export") and ('"' in text or "'" in text):
        surrounding = "{}"
    given_text = surrounding.format(text)
    as_json = {"messages": [{"parts": [{"content": given_text}]}], given_text: ["x", (given_text,)]}
    # JSON inside a text, as tool arguments come: newlines and quotes are escaped there
    nested = json.dumps({"text": given_text})
    twice = json.dumps({"arguments": nested})
    for masked in (
        redactor.text(given_text),
        json.dumps(redactor.json(as_json)),
        redactor.text(nested),
        redactor.text(twice),
    ):
        assert secret not in masked
        assert json.dumps(secret)[1:-1] not in masked
        assert "<redacted:" in masked
        for line in secret.split("\n")[1:-1]:
            assert line not in masked
    assert redactor.may_match(given_text)
    assert redactor.may_match(json.dumps(as_json, ensure_ascii=False))
    assert redactor.may_match(nested.encode())
    assert json.loads(redactor.text(nested)).keys() == {"text"}
    head, tail = surrounding.split("{}")
    assert redactor.text(given_text).startswith(head)
    assert redactor.text(given_text).endswith(tail)


@pytest.mark.parametrize("text", NEAR_MISSES, ids=[text[:24] for text in NEAR_MISSES])
def test_what_only_looks_like_a_secret_stays(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) is text
    value = {"messages": [{"content": text}], "n": [1, 2.5, True, None]}
    assert redactor.json(value) is value


def test_members_named_for_a_credential_are_masked_whole(redactor: Redactor) -> None:
    value = {
        "user": "ada",
        "password": "hunter22!",
        "nested": [{"SecretAccessKey": _AWS_SECRET, "AccessKeyId": "A"}],
        "Authorization": f"Basic {_BASIC}",
        "api_key": "see docs",
        "max_tokens": 100,
    }
    masked, hits = redactor.json_counted(value)
    assert masked == {
        "user": "ada",
        "password": "<redacted:credential>",
        "nested": [{"SecretAccessKey": "<redacted:credential>", "AccessKeyId": "A"}],
        "Authorization": "Basic <redacted:basic-auth>",
        "api_key": "see docs",
        "max_tokens": 100,
    }
    assert hits == Counter({"credential": 2, "basic-auth": 1})
    # the same credential in JSON that is a text gets the same mask: one side may have parsed it
    del value["Authorization"]
    del masked["Authorization"]
    assert json.loads(redactor.text(json.dumps(value))) == masked


def test_the_place_around_a_secret_stays_readable(redactor: Redactor) -> None:
    assert (
        redactor.text("psql postgres://svc:Tr0ub4dor@db:5432/orders")
        == "psql postgres://svc:<redacted:url-credentials>@db:5432/orders"
    )
    assert (
        redactor.text("Authorization: Bearer 0123456789abcdef0123")
        == "Authorization: Bearer <redacted:bearer-token>"
    )


def test_nothing_is_copied_when_there_is_nothing_to_mask(redactor: Redactor) -> None:
    inner = {"a": [1, "two", (3.0, None)]}
    value = [inner, "x"]
    assert redactor.json(value) is value
    changed = redactor.json([inner, f"sk-{_hex(32)}"])
    assert changed[0] is inner
    assert changed[1] == "<redacted:openai-key>"


def test_keys_that_become_equal_are_all_kept_and_numbered_alike_on_both_sides(
    redactor: Redactor,
) -> None:
    first, second = sorted(f"sk-{_hex(32)}" for _ in range(2))
    masked = redactor.json({second: 2, "plain": 0, first: 1})
    assert masked == {"<redacted:openai-key>#2": 2, "plain": 0, "<redacted:openai-key>": 1}
    assert redactor.json({first: 1, second: 2, "plain": 0}) == masked
    assert redactor.json(masked) is masked


class TestRulesOfTheUser:
    def test_may_be_a_regex_a_pair_or_a_rule(self) -> None:
        redactor = Redactor(
            [r"ACME-\d+", ("iban", r"DE\d{20}"), RedactionRule("ssn", fields=("ssn",)), r"X\d{3}"]
        )
        assert [rule.name for rule in redactor.rules] == ["custom-1", "iban", "ssn", "custom-2"]
        assert redactor.text("ACME-12 DE00000000000000000000 X123") == (
            "<redacted:custom-1> <redacted:iban> <redacted:custom-2>"
        )
        assert redactor.json({"SSN": 123456789, "x": {"ssn": None}}) == {
            "SSN": "<redacted:ssn>",
            "x": {"ssn": None},
        }

    def test_paths_are_json_pointers_with_a_star_for_one_step(self) -> None:
        redactor = Redactor([RedactionRule("who", paths=("/customers/*/name", "/a~1b/0"))])
        value = {
            "customers": [{"name": "Ada", "id": 1}, {"name": {"first": "Bo"}}],
            "a/b": ["x", "y"],
        }
        masked, hits = redactor.json_counted(value)
        assert masked == {
            "customers": [{"name": "<redacted:who>", "id": 1}, {"name": "<redacted:who>"}],
            "a/b": ["<redacted:who>", "y"],
        }
        assert hits == {"who": 3}
        assert redactor.json(masked) is masked
        assert redactor.may_match(json.dumps(value))
        assert not redactor.may_match('{"order":"A-1003"}')

    def test_case_may_be_ignored_for_ascii_letters(self) -> None:
        redactor = Redactor(
            [RedactionRule("code", r"sode-[a-z]+", literals=("sode-",), ignore_case=True)]
        )
        assert redactor.text("SODE-abc Sode-XYZ") == "<redacted:code> <redacted:code>"
        assert redactor.text("\u017fode-abc") == "\u017fode-abc"

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ({"name": "Bad Name", "pattern": "x"}, "Bad Name"),
            ({"name": "a"}, "finds nothing"),
            ({"name": "a", "pattern": "("}, "no valid regex"),
            ({"name": "a", "pattern": "x*"}, "empty text"),
            ({"name": "a", "paths": ("x",)}, "no JSON pointer"),
            ({"name": "a", "pattern": "x", "literals": ("",)}, "empty"),
        ],
    )
    def test_that_cannot_work_are_refused_with_the_reason(
        self, arguments: dict[str, object], says: str
    ) -> None:
        with pytest.raises(ValueError, match=re.escape(says)):
            RedactionRule(**arguments)  # type: ignore[arg-type]

    def test_two_of_one_name_and_a_lone_text_are_refused(self) -> None:
        with pytest.raises(ValueError, match="two redaction rules are named 'jwt'"):
            Redactor([*DEFAULT_RULES, ("jwt", "x")])
        with pytest.raises(TypeError, match="one text"):
            Redactor("sk-.*")
        with pytest.raises(TypeError, match="no redaction rule"):
            Redactor([42])  # type: ignore[list-item]

    def test_none_at_all_change_nothing(self) -> None:
        redactor = Redactor(())
        secret = f"sk-{_hex(32)}"
        assert redactor.text(secret) is secret
        assert not redactor.may_match(secret)
        assert redactor.to_header() == []


class TestHeader:
    def test_names_built_in_rules_and_spells_out_the_users(self) -> None:
        mine = RedactionRule("ssn", r"\d{3}-\d{2}-\d{4}", paths=("/a",), literals=("-",))
        redactor = Redactor([*DEFAULT_RULES, mine, ("iban", r"DE\d{20}")])
        header = json.loads(json.dumps(redactor.to_header()))
        assert "openai-key@1" in header
        assert header[-2:] == [
            {"name": "ssn", "pattern": r"\d{3}-\d{2}-\d{4}", "paths": ["/a"], "literals": ["-"]},
            {"name": "iban", "pattern": r"DE\d{20}"},
        ]
        again = Redactor.from_header(header)
        assert again.rules == redactor.rules

    @pytest.mark.parametrize(
        "item", ["openai-key@2", "no-such-rule@1", "openai-key", {"name": "a"}, {"nme": 1}, 7]
    )
    def test_that_cannot_be_applied_is_an_error_that_says_what_to_do(self, item: object) -> None:
        with pytest.raises(
            CassetteFormatError, match=r"pip install -U otel-cassette|record the cassette again"
        ):
            Redactor.from_header([item])


class TestStreams:
    def test_a_secret_cut_by_pieces_is_masked(self, redactor: Redactor) -> None:
        secret = f"sk-{_hex(32)}"
        text = f"The key is {secret}, keep it."
        pieces = [text[i : i + 4] for i in range(0, len(text), 4)]
        masked = redactor.pieces(pieces)
        assert "".join(masked) == "The key is <redacted:openai-key>, keep it."
        assert len(masked) == len(pieces)
        assert masked[:2] == pieces[:2]
        assert masked[-2:] == pieces[-2:]

    def test_pieces_without_a_secret_stay(self, redactor: Redactor) -> None:
        assert redactor.pieces(["a", "", "b"]) == ["a", "", "b"]
        assert redactor.pieces([]) == []


_BITS = st.sampled_from(
    [text for text, _ in SECRETS[:60]]
    + NEAR_MISSES[:10]
    + [
        "sk-",
        "<redacted:",
        "<redacted:jwt>",
        ">",
        "password=",
        '"',
        "\\n",
        "\n",
        " ",
        ":",
        "@",
        "://",
        "Bearer ",
    ]
)
_TEXTS = st.lists(st.one_of(_BITS, st.text(max_size=12)), max_size=6).map("".join)
_JSON = st.recursive(
    st.one_of(_TEXTS, st.none(), st.booleans(), st.integers(-9, 9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.sampled_from(["password", "a", "Authorization"]), _TEXTS),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)
_WITH_USER_RULES = Redactor(
    [
        *DEFAULT_RULES,
        RedactionRule("word", r"\bre[a-z]+"),
        RedactionRule("start", r"^s"),
        RedactionRule("at", paths=("/a/*",)),
        RedactionRule("quoted", r'"\w+"', literals=('"',)),
    ]
)
_DEFAULTS = Redactor()


@given(_JSON)
def test_redacting_twice_is_redacting_once(value: object) -> None:
    for redactor in (_DEFAULTS, _WITH_USER_RULES):
        once = redactor.json(value)
        assert redactor.json(once) == once
        # nor does it depend on what this redactor has seen before
        assert Redactor(redactor.rules).json(value) == once


@given(_JSON)
def test_what_the_pre_filter_rules_out_is_not_changed(value: object) -> None:
    for redactor in (_DEFAULTS, Redactor(_WITH_USER_RULES.rules[-1:])):
        written = json.dumps(value, ensure_ascii=False)
        if not redactor.may_match(written):
            assert redactor.json(value) is value
        if isinstance(value, str) and not redactor.may_match(value):
            assert redactor.text(value) is value


@given(st.lists(_TEXTS, max_size=6))
def test_pieces_add_up_to_the_masked_text(pieces: list[str]) -> None:
    masked = _DEFAULTS.pieces(pieces)
    assert "".join(masked) == _DEFAULTS.text("".join(pieces))
    assert len(masked) == len(pieces)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "sk-",
            "sk-ant-",
            "sk-proj-a",
            "eyJ",
            "eyJaaaaaaaa.",
            "AIza",
            "AKIA",
            "xoxb-",
            "gsk_",
            "JQQJ99",
            "a",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN ",
            "Bearer ",
            "Bearer a",
            "://",
            "://a:",
            "://a:b",
            "dapi7",
        ),
        *(
            "password=",
            "password=1(",
            'password":"',
            "password: \\",
            "authorization: basic ",
            "AKIA234567ABCDEFGHIJ ",
        ),
        *(
            "api key",
            "\n",
            "A1" * 60 + " ",
            "hooks.slack.com/services/",
            "lsv2_pt_",
            "SG.a",
            "sk-a1",
        ),
    ],
)
def test_a_megabyte_made_to_trip_a_regex_takes_no_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    start = time.process_time()
    Redactor().text(text)
    assert time.process_time() - start < 8  # seconds; a quadratic pattern takes minutes


def test_a_long_chat_is_scanned_once() -> None:
    redactor = Redactor()
    clean = "Please look at https://example.com/orders/1003 and tell me. " * 10_000
    start = time.process_time()
    redactor.json([clean])
    first = time.process_time() - start
    start = time.process_time()
    redactor.json([clean])
    assert time.process_time() - start < max(first / 3, 0.01)


def test_the_pre_filter_costs_a_fraction_of_the_regexes() -> None:
    redactor = Redactor()
    text = (
        "We looked up order A-1003 (call_0pNPcRyfDwPxBS9Uw1cHtpoY); it was paid by card. " * 50
    )[:3500]
    data = text.encode()
    regexes = [rule.regex for rule in redactor.rules if rule.regex]
    assert not redactor.may_match(data)
    timings: list[tuple[float, float]] = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(50):
            redactor.may_match(data)
        middle = time.perf_counter()
        for _ in range(50):
            for regex in regexes:
                regex.search(text)
        timings.append((middle - start, time.perf_counter() - middle))
    # 0.1 to 0.15 when it was written; the best of each, since other work disturbs either
    assert min(t[0] for t in timings) < 0.35 * min(t[1] for t in timings)


def test_the_cache_is_bounded() -> None:
    redactor = Redactor()
    for i in range(200):
        redactor.text(f"{i} " * 20_000)
    assert redactor._cached_chars < 6_000_000
    assert sum(map(len, redactor._cache)) == redactor._cached_chars
