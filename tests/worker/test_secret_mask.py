"""Secrets are masked in whatever form an address or a form of HTML gives them."""

from __future__ import annotations

from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.worker.secret_mask import Mask

SECRET = "pä ss/w+rd:@&=%~!*'()"  # noqa: S105 - not one


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET, safe="").lower().replace("p%c3%a4", "p%c3%a4"),
        urlencode({"x": SECRET}).partition("=")[2],
        # What encodeURIComponent of a browser leaves as it is.
        quote(SECRET, safe="~!*'()"),
        "".join(f"%{byte:02X}" if not chr(byte).isalnum() or byte > 127 else chr(byte) for byte in SECRET.encode()),
    ],
)
def test_a_secret_in_an_address_is_masked(shown):
    mask = Mask([SECRET])
    assert mask(f"GET https://example.com/?key={shown}&x=1") == "GET https://example.com/?key=***&x=1"


@given(st.text(min_size=4, alphabet=st.characters(exclude_categories=("Cs",))), st.sampled_from(["", "/", "~!*'()/:"]))
def test_no_encoding_of_any_secret_passes_nor_is_longer_than_said(secret, safe):
    mask = Mask([secret])
    for shown in (secret, quote(secret, safe=safe), quote_plus(secret, safe=safe)):
        assert mask(f"<{shown}>") == "<***>"
        assert len(shown) <= mask.longest


def test_of_two_secrets_the_longer_one_wins_where_both_begin():
    mask = Mask(["pass word", "pass word and more"])
    assert mask("pass+word+and+more, pass%20word.") == "***, ***."


def test_other_text_stays():
    assert Mask(["a b&c"])("a b c a%20b%20c") == "a b c a%20b%20c"
