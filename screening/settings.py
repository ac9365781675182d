"""Every option of a site, its default and one sentence; read once by app, worker and command line."""

import os
import secrets
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from screening.labels import Spoken

SIMULATED_NOTICE = "Demo mode: labels come from a keyword script, not an AI model. Do not use for real cases."


class ModelServer(BaseModel):
    """``cancel_on_futility``: whether its draw batches are broken off; None: by address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    protocol: Spoken = "messages"
    cancel_on_futility: bool | None = None


class FileLimits(BaseModel):
    """What a file may hold, whatever its format: counted on what it unpacks to, and before that is in memory."""

    model_config = ConfigDict(frozen=True)

    bytes_sent: int = 200_000_000
    """Of a file that a program sends."""
    characters: int = 1_000_000_000
    """Of all cells together."""
    expansion: int = 100
    """So many times its size on disk, beyond ``characters_unquestioned``: texts that people wrote pack to a fifth."""
    characters_unquestioned: int = 20_000_000
    row: int = 4_000_000
    """Characters of one row: a line, a JSON object, all cells of a table's row."""
    rows: int = 2_000_000
    columns: int = 1_000
    page: int = 128_000_000
    """Bytes of a file that are unpacked at once: a page of a Parquet file, a batch of an Arrow file."""


FILE_LIMITS = FileLimits()


class Settings(BaseSettings):
    """Read from the environment (prefix SECOND_LOOK_, three names of others' without it) and `.env`.

    An empty variable is one that is not set.
    """

    model_config = SettingsConfigDict(
        env_prefix="SECOND_LOOK_",
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        populate_by_name=True,
        frozen=True,
        hide_input_in_errors=True,  # keys are among it, and errors are logged
    )

    database_url: str = Field("sqlite:///var/second_look.db", validation_alias="DATABASE_URL")
    data_directory: Path = Path("var")

    sampler: Literal["auto", "simulated", "anthropic", "chat", "logprobs"] = "auto"
    logprobs_most_unknown: Annotated[float, Field(ge=0, lt=1)] = 0.05
    anthropic_api_key: SecretStr | None = Field(None, validation_alias="ANTHROPIC_API_KEY")
    anthropic_base_url: str | None = Field(None, validation_alias="ANTHROPIC_BASE_URL")
    servers: Mapping[str, ModelServer] = {}
    cancel_on_futility: bool | None = None
    model: str = "claude-sonnet-4-6"
    accepted_model_names: tuple[str, ...] = ()
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.7
    requests_per_minute: Annotated[int, Field(ge=1)] = 1000
    concurrency: Annotated[int, Field(ge=1)] = 32
    cases_in_flight: Annotated[int, Field(ge=1)] = 16
    call_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    node_deadline_s: Annotated[float, Field(gt=0)] = 300.0
    overnight_poll_s: Annotated[float, Field(gt=0)] = 30.0
    simulated_latency_s: Annotated[float, Field(ge=0)] = 0.0

    preset: Literal["certified", "recommended", "paper"] = "certified"
    budget: Annotated[int, Field(ge=1, le=100_000)] = 100
    seed: int = 0
    audit_rate: Annotated[float, Field(ge=0, le=1)] = 0.05
    max_text_characters: Annotated[int, Field(ge=1_000)] = 100_000
    languages: tuple[str, ...] = ("en",)
    hsts_days: Annotated[int, Field(ge=0)] = 0
    prompts_directory: Path | None = None

    metrics_token: SecretStr | None = None
    metrics_port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    api_port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    log_format: Literal["plain", "json"] = "plain"
    mask_before_sending: bool = False
    notify_private_addresses: bool = False
    first_admins: tuple[str, ...] = ()
    pseudonym_key: SecretStr | None = None

    audit_key: SecretStr | None = None
    audit_anchor_file: Path | None = None
    audit_anchor_webhook: str | None = None
    audit_anchor_events: Annotated[int, Field(ge=1)] = 500
    audit_anchor_minutes: Annotated[float, Field(gt=0)] = 10.0

    @field_validator("temperature", mode="before")
    @classmethod
    def _no_temperature(cls, given: object) -> object:
        """The word none sends no temperature."""
        return None if isinstance(given, str) and given.strip().casefold() == "none" else given

    @field_validator("servers", mode="before")
    @classmethod
    def _addresses_alone(cls, given: object) -> object:
        """An address alone is a server that speaks the Messages API."""
        if not isinstance(given, Mapping):
            return given
        return {name: {"url": server} if isinstance(server, str) else server for name, server in given.items()}

    @model_validator(mode="after")
    def _answerable(self) -> "Settings":
        if self.sampler == "anthropic" and not (self.anthropic_api_key or self.anthropic_base_url):
            raise ValueError("the anthropic sampler needs ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL")
        if self.sampler in ("chat", "logprobs") and not self.anthropic_base_url:
            needed = "ANTHROPIC_BASE_URL, the address of the server that speaks it"
            raise ValueError(f"the {self.sampler} sampler needs {needed}")
        return self

    @cached_property
    def pseudonym_secret(self) -> str:
        """The pseudonym key: the one set, else the site's own, made once and readable by its owner alone."""
        return self._secret(self.pseudonym_key, "pseudonym.key")

    @cached_property
    def audit_secret(self) -> str:
        """The key of the audit log, likewise: never in the database that it protects."""
        return self._secret(self.audit_key, "audit.key")

    def _secret(self, given: SecretStr | None, name: str) -> str:
        if given is not None:
            return given.get_secret_value()
        kept = self.data_directory / name
        if not kept.exists():
            self.data_directory.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=self.data_directory) as made:  # mode 600
                made.write(secrets.token_hex(32))
                made.flush()
                with suppress(FileExistsError):  # another process was first: its key stands
                    os.link(made.name, kept)
        return kept.read_text(encoding="ascii")

    @property
    def anchor_file(self) -> Path:
        """Where anchors of the audit log are written."""
        return self.audit_anchor_file or self.data_directory / "audit-anchors.jsonl"

    @cached_property
    def agents(self) -> Literal["simulated", "anthropic", "chat", "logprobs"]:
        """Which agents answer, `auto` resolved."""
        if self.sampler != "auto":
            return self.sampler
        return "anthropic" if self.anthropic_api_key or self.anthropic_base_url else "simulated"

    @property
    def protocol(self) -> Spoken:
        """How the usual server is spoken to."""
        return self.agents if self.agents in ("chat", "logprobs") else "messages"

    @property
    def simulated(self) -> bool:
        """Whether every page must say that no model is asked."""
        return self.agents == "simulated"


def option_words() -> Mapping[str, str]:
    """What each option does, in one sentence."""
    words: Mapping[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return words
