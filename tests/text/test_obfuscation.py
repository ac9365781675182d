"""A disguise is found; ordinary slang, abbreviations and references are not disguises."""

import pytest

from screening.text.received import is_obfuscated


@pytest.mark.parametrize(
    "text",
    [
        "1 w4nt t0 d13", "k1ll myself", "su1c1de", "un@live myself", "t1red 0f l1fe", "wanna d1e", "I want 2 d1e",
        "I w a n t t o d i e", "d i e", "d.i.e", "k_i_l_l", "I-w-a-n-t-t-o-g-o", "d\ni\ne",
        "s*icide", "k*ll", "ki.ll", "sui-cide", "su.ic.ide",
        "I want to d\u0456e", "d\u03b9e now", "\u01dd\u0131p o\u0287 \u0287u\u0250\u028d",
        "I want to &#100;ie", "SSB3YW50IHRvIGRpZSBub3c=", "eid ot tnaw dna yas",
    ],
)  # fmt: skip
def test_disguises(text: str) -> None:
    assert is_obfuscated(text)


@pytest.mark.parametrize(
    "text",
    [
        "gr8 m8, b4 2nite", "4ever and 2day", "my PS5, mp3 and iPhone 13", "U.S.A. and e.g. R.I.P.", "a b c d",
        "self-harm", "well-being", "f*ck", "A1C 5.4, B12 low", "10µg twice", "3 am", "Tom & Jerry &amp; co &#39;",
        "https://example.invalid/d1e", "@d13_fan", "N A S A", "no on saw was", "", "live", "die", "die-hard",
        "I.T. dept",
    ],
)  # fmt: skip
def test_ordinary_writing(text: str) -> None:
    assert not is_obfuscated(text)
