"""Every option of a site, its default and one sentence; read once by app, worker and command line."""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

SIMULATED_NOTICE = "Demo mode: labels come from a keyword script, not an AI model. Do not use for real cases."


Spoken = Literal["messages", "chat", "logprobs"]
"""How a model server is spoken to: the Messages API, chat completions, or those with log probabilities."""


class ModelServer(BaseModel):
    """A further model server: its address, how it is spoken to, whether its draw batches are broken off (None: by
    address)."""

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

    database_url: str = Field(
        "sqlite:///var/second_look.db",
        validation_alias="DATABASE_URL",
        description="Where everything is kept: sqlite:///path or postgresql://user:password@host/name.",
    )
    data_directory: Path = Field(Path("var"), description="Where uploaded files and the audit anchor are kept.")

    sampler: Literal["auto", "simulated", "anthropic", "chat", "logprobs"] = Field(
        "auto",
        description="Which agents answer; auto is anthropic where a key or a base URL is set, else simulated. chat "
        "speaks OpenAI-compatible chat completions with the server at the base URL; logprobs does too and takes the "
        "probabilities of the labels from one call instead of drawing answers.",
    )
    logprobs_most_unknown: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.05,
        description="Where more of the probability than this belongs to no label that is known, answers are drawn "
        "instead (logprobs).",
    )
    anthropic_api_key: SecretStr | None = Field(
        None, validation_alias="ANTHROPIC_API_KEY", description="The key of the Messages API."
    )
    anthropic_base_url: str | None = Field(
        None,
        validation_alias="ANTHROPIC_BASE_URL",
        description="Another server that speaks the Messages API, for example one inside the building.",
    )
    servers: Mapping[str, ModelServer] = Field(
        {},
        description='Further model servers by name, for nodes that name one: {"ward": "http://10.0.0.5:8080"} speaks '
        'the Messages API; {"ward": {"url": "http://10.0.0.5:8080", "protocol": "chat"}} chat completions.',
    )
    cancel_on_futility: bool | None = Field(
        None,
        description="Whether calls under way at the base URL are broken off once their answers no longer matter: true "
        "for a server that bills nothing, false for a service or a gateway to one. Unless set, only an address of this "
        "machine or of a private network is taken for such a server.",
    )
    model: str = Field("claude-sonnet-4-6", description="The model asked.")
    accepted_model_names: tuple[str, ...] = Field(
        (),
        description="Other names under which answers of the model are accepted: a dated version, a file's name. "
        "Answers under any other name are unusable.",
    )
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        0.7, description="Sampling temperature, sent only to models that take one; none sends none."
    )
    requests_per_minute: Annotated[int, Field(ge=1)] = Field(
        1000, description="Most calls a minute, over all workers together."
    )
    concurrency: Annotated[int, Field(ge=1)] = Field(32, description="Most calls in flight, over all workers together.")
    cases_in_flight: Annotated[int, Field(ge=1)] = Field(16, description="Most cases screened at once per worker.")
    call_timeout_s: Annotated[float, Field(gt=0)] = Field(30.0, description="Longest wait for one answer.")
    node_deadline_s: Annotated[float, Field(gt=0)] = Field(
        300.0,
        description="Longest wait for one draw batch of draws, retries and pauses included, from when the last of its "
        "calls was let through our own limits.",
    )
    overnight_poll_s: Annotated[float, Field(gt=0)] = Field(
        30.0, description="Between two looks at message batches under way."
    )
    simulated_latency_s: Annotated[float, Field(ge=0)] = Field(
        0.0, description="Pause before each simulated answer, to watch the engine at a model's pace."
    )

    preset: Literal["certified", "recommended", "paper"] = Field(
        "certified",
        description="The pipeline new batches start with; a database whose first batch was screened before there "
        "were certified rules keeps recommended until this is set.",
    )
    budget: Annotated[int, Field(ge=1, le=100_000)] = Field(100, description="Most calls a node may use on a text.")
    seed: int = Field(0, description="Seed of the simulated agents and of which cases become quality checks.")
    audit_rate: Annotated[float, Field(ge=0, le=1)] = Field(
        0.05, description="Share of cases decided by agents alone that clinicians review, unmarked, as quality checks."
    )
    max_text_characters: Annotated[int, Field(ge=1_000)] = Field(
        100_000, description="Longer texts are escalated to a clinician without a call."
    )
    languages: tuple[str, ...] = Field(("en",), description="Languages in which safe may be committed.")
    hsts_days: Annotated[int, Field(ge=0)] = Field(
        0, description="Days for which browsers may reach this site over TLS alone (HSTS); 0 says nothing of it."
    )
    prompts_directory: Path | None = Field(None, description="A site's own prompts instead of the shipped ones.")

    metrics_token: SecretStr | None = Field(
        None, description="Who shows it as a bearer token may read /metrics of the app; without one nobody may."
    )
    metrics_port: Annotated[int, Field(ge=1, le=65_535)] | None = Field(
        None, description="A port of this machine's loopback on which the app answers /metrics without a token."
    )
    api_port: Annotated[int, Field(ge=1, le=65_535)] | None = Field(
        None, description="The port of the API for programs; where it is set `make run` serves it beside the app."
    )
    log_format: Literal["plain", "json"] = Field(
        "plain", description="How app and worker log: for people, or JSON lines."
    )
    mask_before_sending: bool = Field(
        False,
        description="Whether mail addresses, phone numbers, links, handles and long numbers are masked in what the "
        "model is shown. Names and places are not found.",
    )
    notify_private_addresses: bool = Field(
        False, description="Whether notifications may go to this machine and private networks, also unencrypted."
    )
    first_admins: tuple[str, ...] = Field(
        (), description="Who may become admin while a site has none: issuer|subject, as the sign-in page shows it."
    )
    pseudonym_key: SecretStr | None = Field(
        None,
        description="Key under which reviewers' names are hidden in exports; without one the site makes its own "
        "and keeps it in the data directory. Several machines need the same one.",
    )

    audit_key: SecretStr | None = Field(
        None,
        description="Key of the audit log's chain; without one the site makes its own and keeps it in the data "
        "directory. All machines of a site need the same one. Keep a copy where the database is not.",
    )
    audit_anchor_file: Path | None = Field(
        None,
        description="File to which the audit log's end is written by itself; best on another machine's disk. "
        "Default: audit-anchors.jsonl in the data directory.",
    )
    audit_anchor_webhook: str | None = Field(
        None, description="An https address that is sent the same, signed with the audit log's key."
    )
    audit_anchor_events: Annotated[int, Field(ge=1)] = Field(
        500, description="An anchor is written after so many events of the audit log."
    )
    audit_anchor_minutes: Annotated[float, Field(gt=0)] = Field(
        10.0, description="An anchor is written after so many minutes, where there was an event."
    )

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
            raise ValueError(
                f"the {self.sampler} sampler needs ANTHROPIC_BASE_URL, the address of the server that speaks it"
            )
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
