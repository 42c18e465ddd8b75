"""The platform keys of real settings, on a clock that the test moves."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from addon.settings.provider_builder import name_key
from addon.settings.settings import load_settings
from addon.settings.value_types import SecretReference
from addon.telemetry.metrics import Metrics
from addon.upstream.platform_keys import PlatformKeys
from policies.affinity import distance, find_affinity
from policies.route import Target
from rig.settings_files import edit, write_files

PROVIDERS = "catalog_data/providers.toml"
ONE = 'platform_key = "env:OPENAI_KEY"'
THREE = 'platform_keys = ["env:A", "env:B", "env:C"]'
ENV = {
    "A": "sk-obviously-fake-a",
    "B": "sk-obviously-fake-b",
    "C": "sk-obviously-fake-c",
    "GROQ_KEY": "gsk-fake",
}


def gauges(page: bytes, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a gauge by their provider and other labels."""
    families = text_string_to_metric_families(page.decode())
    [found] = [family.samples for family in families if family.name == name]
    by = ("provider", *labels)
    return {tuple(sample.labels[label] for label in by): sample.value for sample in found}


@dataclass
class Rig:
    """The keys of a process over files on disk. It is their clock, which shows ``now_s``."""

    folder: Path
    now_s: float = 1000.0
    env: dict[str, str] = field(default_factory=lambda: dict(ENV))

    def __post_init__(self) -> None:
        self.conf_file = write_files(self.folder)
        edit(self.folder / PROVIDERS, ONE, THREE)
        self.metrics = Metrics("1.2.3")
        self.keys = PlatformKeys(self.metrics, self)
        self.reload()

    def reload(self) -> None:
        self.settings = load_settings(self.conf_file, self.env)
        self.keys.use_settings(self.settings)

    def monotonic_s(self) -> float:
        return self.now_s

    def now(self) -> datetime:
        return datetime.now(UTC)

    def target(self, slug: str = "gpt-4o-mini") -> Target:
        model = self.settings.models[slug]
        return Target(model, "payg", model.provider.platform_keys[0])

    def choose(self, wanted: str = "a") -> Target:
        """Return the target of a call whose conversation has the key ``wanted``, and otherwise the key after it.

        ``wanted`` is a letter. The next ones follow: "b" has "c" and then "a".
        """
        return self.keys.choose(self.target(), lambda: CONVERSATIONS[wanted])

    def chosen(self, wanted: str = "abc") -> str:
        """Return the letters of the keys that these conversations get now."""
        return "".join(letter(self.choose(one)) for one in wanted)

    def answer(self, status: int, retry_after: str | None = None, wanted: str = "a") -> str:
        """Make one call with this answer. Return the letter of its key."""
        target = self.choose(wanted)
        self.keys.record_answer(target, status, retry_after)
        return letter(target)


def letter(target: Target) -> str:
    return target.secret.get_secret_value()[-1]


def _find_conversations() -> dict[str, bytes]:
    """Return an affinity for each letter, whose keys are that one and then the next ones in turn."""
    names = {
        letter: name_key(SecretReference("env", letter.upper()), SecretStr("")).encode() for letter in "abc"
    }
    wanted = {"abc": "a", "bca": "b", "cab": "c"}
    found: dict[str, bytes] = {}
    for number in range(1000):
        affinity = find_affinity("acme", {"messages": []}, f"run {number}")
        order = "".join(sorted(names, key=lambda one: distance(affinity, names[one], 1)))
        if order in wanted:
            found.setdefault(wanted[order], affinity)
    return found


CONVERSATIONS = _find_conversations()
