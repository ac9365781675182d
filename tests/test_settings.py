"""Settings: which agents answer, what an empty variable means, and a pseudonym key that no two sites share."""

import stat
from pathlib import Path

import pytest
from pydantic import ValidationError

from screening.settings import Settings


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "SECOND_LOOK_SAMPLER", "SECOND_LOOK_PSEUDONYM_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_key_the_agents_are_simulated_and_a_model_without_key_or_server_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Settings().simulated
    with pytest.raises(ValidationError, match="ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL"):
        Settings(sampler="anthropic")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    assert not Settings().simulated


@pytest.mark.parametrize(("given", "read"), [("", 0.7), ("none", None), ("0.2", 0.2)])
def test_the_word_none_sends_no_temperature(monkeypatch: pytest.MonkeyPatch, given: str, read: float | None) -> None:
    monkeypatch.setenv("SECOND_LOOK_TEMPERATURE", given)
    assert Settings().temperature == read


def test_a_site_makes_its_own_pseudonym_key_once_unless_one_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, again = (Settings(data_directory=tmp_path / "one").pseudonym_secret for _ in range(2))
    other = Settings(data_directory=tmp_path / "other").pseudonym_secret
    assert one == again != other and len(one) == 64
    (kept,) = (tmp_path / "one").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    monkeypatch.setenv("SECOND_LOOK_PSEUDONYM_KEY", "ours")
    assert Settings(data_directory=tmp_path / "third").pseudonym_secret == "ours"
    assert not (tmp_path / "third").exists()


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = Settings.model_fields.items()
    names = [str(field.validation_alias or f"SECOND_LOOK_{name.upper()}") for name, field in fields]
    for name in names:
        monkeypatch.delenv(name, raising=False)
    usual = Settings(_env_file=None)
    for name in names:
        monkeypatch.setenv(name, "")
    assert Settings(_env_file=None).model_dump() == usual.model_dump() and usual.anthropic_base_url is None


def test_settings_that_are_refused_are_named_without_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a secret")
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", "chat")
    with pytest.raises(ValidationError, match="the chat sampler needs") as refused:
        Settings(_env_file=None)
    assert "secret" not in str(refused.value)
