"""The schema of proxy.conf: one class a section.

``shared_settings`` checks the files that it names. docs/configuration.md documents every key, and a test
checks that it does.
"""

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, SecretStr, model_validator

from addon.settings.allowed_references import ReferencePattern
from addon.settings.store_urls import LedgerUrl, RedisUrl
from addon.settings.validation import Table, table_error
from addon.settings.value_types import (
    AbsolutePath,
    CatalogPath,
    Count,
    Distinct,
    Enabled,
    HostName,
    OptionalPath,
    OptionalSecret,
    Percent,
    PolicyName,
    Port,
    ProxySetting,
    Seconds,
    SecondsOrNone,
    Text,
)
from policies.route import MAX_ATTEMPTS

SESSION_KEYS_FILE: Final = "console.keys"


class Listen(Table):
    """``[listen]``: the public port."""

    host: Text = "127.0.0.1"
    port: Port = 8080
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    tls_certificate: OptionalPath = None
    drain_timeout_s: Annotated[float, Field(ge=0)] = 30


class Admin(Table):
    """``[admin]``: health, readiness, metrics, and who may see the console."""

    host: Text = "127.0.0.1"
    port: Port = 8081
    console_password: OptionalSecret = ""
    console_hosts: Distinct[HostName] = ()
    references: Distinct[ReferencePattern] = ()
    edits: Enabled = "auto"


COPIES_FOLDER: Final = "ledger-workspaces"
"""The folder next to ``[paths] database`` that has this machine's copies of the workspace files in the ledger."""


class Paths(Table):
    """``[paths]``. The loaded paths are absolute, the defaults too.

    With ``workspaces = "ledger"``, the folder is that of the copies of the files in the ledger.
    """

    model_config = ConfigDict(validate_default=True)

    catalog: CatalogPath = Path("catalog_data")
    catalog_overlay: OptionalPath = None
    workspaces: AbsolutePath = Path("policies/workspaces")
    database: AbsolutePath = Path("var/tollgate.db")
    archives: OptionalPath = None

    @model_validator(mode="before")
    @classmethod
    def _find_copies(cls, table: Any) -> Any:
        if not isinstance(table, dict) or table.get("workspaces") != "ledger":
            return table
        database = str(table.get("database", cls.model_fields["database"].default))
        return {**table, "workspaces": str(Path(database).with_name(COPIES_FOLDER))}

    @property
    def are_workspaces_in_ledger(self) -> bool:
        """Whether the workspace files are in the ledger. Then ``workspaces`` has only copies."""
        return self.workspaces == self.database.with_name(COPIES_FOLDER)

    @property
    def master_keys(self) -> Path:
        """The file of the master keys that a first run makes."""
        return self.database.with_name("master.keys")

    @property
    def session_keys(self) -> Path:
        """The file of the keys that sign sessions of the console."""
        return self.database.with_name(SESSION_KEYS_FILE)


class State(Table):
    """``[state]``: where limits and spend are kept."""

    backend: Literal["sqlite", "redis"] = "sqlite"
    redis_url: RedisUrl = SecretStr("redis://127.0.0.1:6379/0")
    fleet: Text | Literal[""] = ""


class Ledger(Table):
    """``[ledger]``: where money is kept, and for how many months. Empty: in the SQLite file ``[paths] database``.

    ``keep_months`` 0: for ever.
    """

    url: LedgerUrl = ""
    keep_months: Annotated[int, Field(ge=0, le=1200)] = 0


class Limits(Table):
    """``[limits]``: the limits of one workspace and of one request."""

    standard_rpm: Count = 60
    pro_rpm: Count = 120
    max_request_bytes: Annotated[int, Field(ge=1, le=134_217_728)] = 33_554_432
    max_in_flight: Count = 1000


class Upstream(Table):
    """``[upstream]``: attempts at providers, the limits of time and size for them, and the egress proxy."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = MAX_ATTEMPTS
    retries: Annotated[int, Field(ge=0, le=1)] = 1

    connect_timeout_s: Seconds = 5
    first_byte_timeout_s: Seconds = 120
    idle_timeout_s: Seconds = 60
    whole_timeout_s: Seconds = 570
    heartbeat_s: SecondsOrNone = 0
    max_response_bytes: Count = 67_108_864
    proxy: ProxySetting = ""


class Billing(Table):
    """``[billing]``: the retail price."""

    markup_percent: Percent = Decimal(4)


class Sandbox(Table):
    """``[sandbox]``: the built-in upstream."""

    enabled: Enabled = "auto"


class Policies(Table):
    """``[policies]``: operators' own policy modules."""

    extra: Distinct[PolicyName] = ()


class Alerts(Table):
    """``[alerts]``: where events are sent, and the secret that signs them."""

    webhook: OptionalSecret = ""
    secret: OptionalSecret = ""

    @model_validator(mode="after")
    def _check_secret(self) -> Self:
        if self.secret and not self.webhook:
            raise table_error("signs events for a webhook, and webhook is empty", "secret")
        return self


class Log(Table):
    """``[log]``: the form of the log's lines."""

    format: Literal["auto", "json", "text"] = "auto"


class Metrics(Table):
    """``[metrics]``: which metrics are kept."""

    workspaces: bool = False


class ProxyConf(Table):
    """The whole of proxy.conf."""

    listen: Listen = Listen()
    admin: Admin = Admin()
    paths: Paths
    state: State = State()
    ledger: Ledger = Ledger()
    limits: Limits = Limits()
    upstream: Upstream = Upstream()
    billing: Billing = Billing()
    sandbox: Sandbox = Sandbox()
    policies: Policies = Policies()
    alerts: Alerts = Alerts()
    log: Log = Log()
    metrics: Metrics = Metrics()

    @model_validator(mode="before")
    @classmethod
    def _add_paths(cls, table: Any) -> Any:
        # Default paths depend on the folder of proxy.conf. So the schema must see them even when the section is absent.
        return {"paths": {}, **table}

    @model_validator(mode="after")
    def _check_ledger(self) -> Self:
        if self.ledger.url and self.state.backend != "redis":
            # Two machines would each give the whole rate, and nothing would say so.
            raise table_error(
                'needs [state] backend = "redis": machines that share a ledger share rates', "ledger", "url"
            )
        return self

    @model_validator(mode="after")
    def _check_archives(self) -> Self:
        if self.ledger.keep_months and self.paths.archives is None:
            raise table_error(
                "needs [paths] archives, a folder: older calls go into files there", "ledger", "keep_months"
            )
        return self

    @model_validator(mode="after")
    def _check_workspaces(self) -> Self:
        if self.paths.are_workspaces_in_ledger and not self.ledger.url:
            raise table_error(
                'is "ledger", which needs [ledger] url: with the ledger in a file, name a folder',
                "paths",
                "workspaces",
            )
        return self

    @model_validator(mode="after")
    def _check_admin_port(self) -> Self:
        if self.admin.port and (self.admin.host, self.admin.port) == (self.listen.host, self.listen.port):
            raise table_error("must differ from listen.port", "admin", "port")
        return self
