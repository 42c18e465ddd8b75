"""``GatewaySecrets``: the secrets that the gateway uses itself, which no workspace may use.

They are those of proxy.conf and of the catalog's providers, and the master keys. The file of a workspace is often
edited by more people than proxy.conf. One that names a platform key would make calls for free, and one that names the
console's password would send it to a provider. Source: docs/configuration.md, "[byok.PROVIDER]".
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr

from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import join_key_path
from addon.settings.file_content import find_real_path
from addon.settings.secrets import (
    KEY_FILE_VARIABLE,
    KEY_VARIABLE,
    Secrets,
    find_key_file,
    list_variables,
    read_master_keys,
)
from addon.settings.sources import Sources
from addon.settings.value_types import SecretReference

_MASTER_KEY: Final = "the master key"
_BETWEEN_KEYS: Final = re.compile(r"[,\s]+")
_AWS_PARTS: Final = (2, 3)
_MIN_PART_CHARS: Final = 8
"""A part of a secret that is shorter is in others by chance."""


class SecretUse(NamedTuple):
    """A secret that ``place`` uses, written in ``file``. ``secret`` is None where it is not read."""

    file: Path
    place: str
    reference: SecretReference
    secret: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class GatewaySecrets:
    """The place of each secret by its environment variable, by the real path of its file, and by its digest."""

    by_variable: Mapping[str, str] = field(default_factory=dict)
    by_path: Mapping[str, str] = field(default_factory=dict, repr=False)
    by_digest: Mapping[bytes, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, uses: Iterable[SecretUse], paths: Mapping[Path, str], values: Mapping[str, str]) -> Self:
        """Return the places of ``uses``, of other files by path, and of other secrets by value."""
        variables = {KEY_VARIABLE: _MASTER_KEY, KEY_FILE_VARIABLE: _MASTER_KEY}
        real_paths = {find_real_path(path): place for path, place in paths.items()}
        digests = {digest: place for text, place in values.items() for digest in _list_all_digests(text)}
        for file, key, reference, secret in uses:
            place = f"{file}: {key}"
            variables |= dict.fromkeys(list_variables(reference), place)
            if reference.kind == "file":
                real_paths[find_real_path(file.parent / reference.name)] = place
            if secret:
                digests |= dict.fromkeys(_list_all_digests(secret.get_secret_value()), place)
        return cls(variables, real_paths, digests)

    def find_reference(self, reference: SecretReference, folder: Path) -> str | None:
        """Return the place that uses what a reference names, None where there is none."""
        if reference.kind == "file":
            return self.by_path.get(find_real_path(folder / reference.name))
        used = (self.by_variable.get(name) for name in list_variables(reference))
        return next(filter(None, used), None)

    def find_secret(self, secret: SecretStr | None) -> str | None:
        """Return the place that uses the same secret, or one with a part in common, None where there is none."""
        if secret is None:
            return None
        text = secret.get_secret_value()
        used = map(self.by_digest.get, _list_digests([*_list_forms(text), *_list_words(text)]))
        return next(filter(None, used), None)


def load_gateway_secrets(
    conf_file: Path,
    confs: Iterable[ProxyConf],
    platform_keys: Iterable[SecretUse],
    env: Mapping[str, str],
    sources: Sources,
) -> GatewaySecrets:
    """Return the secrets of ``confs``, of ``platform_keys``, and the master keys.

    ``confs`` are the texts of ``conf_file`` that are in use: that of the start, and that of now. A secret that can't be
    read is no error here: it is known by its reference.
    """
    uses, values, paths = list(platform_keys), dict[str, str](), {conf_file: str(conf_file)}
    for conf in confs:
        secrets = Secrets(env, sources, conf.paths.master_keys)
        key_file = find_key_file(env, conf.paths.master_keys)
        paths |= {key_file: _MASTER_KEY, conf.paths.session_keys: "the sessions of the console"}
        paths[conf.paths.database] = f"{conf_file}: paths.database"
        if conf.listen.tls_certificate:
            paths[conf.listen.tls_certificate] = f"{conf_file}: listen.tls_certificate"
        for key, value in list_conf_secrets(conf):
            if isinstance(value, SecretStr):
                values[value.get_secret_value()] = f"{conf_file}: {key}"
            else:
                uses.append(SecretUse(conf_file, key, value, _read(value, conf_file, secrets)))
        with suppress(ValueError):
            text = read_master_keys(env, sources, conf.paths.master_keys).text
            values |= dict.fromkeys(filter(None, [text, *_BETWEEN_KEYS.split(text)]), _MASTER_KEY)
    return GatewaySecrets.of(uses, paths, values)


def list_conf_secrets(table: BaseModel, *path: str) -> Iterator[tuple[str, SecretReference | SecretStr]]:
    """Yield each reference and each secret in proxy.conf, or in a table of it, with its key."""
    for name in type(table).model_fields:
        value: Any = getattr(table, name)
        if isinstance(value, BaseModel):
            yield from list_conf_secrets(value, *path, name)
        elif isinstance(value, SecretReference | SecretStr):
            yield join_key_path(*path, name), value


def _read(reference: SecretReference, conf_file: Path, secrets: Secrets) -> SecretStr | None:
    with suppress(ValueError):
        if text := secrets.read(reference, conf_file.parent):
            return SecretStr(text)
    return None


def _list_all_digests(secret: str) -> list[bytes]:
    return _list_digests([*_list_forms(secret), *_list_parts(secret)])


def _list_digests(texts: Iterable[str]) -> list[bytes]:
    return [sha256(text.encode(errors="surrogatepass")).digest() for text in texts]


def _list_forms(secret: str) -> Iterator[str]:
    """Yield a secret, and the private key of a service account: its JSON may be written in many ways."""
    yield normalize("NFC", secret.strip())
    yield from _list_json_parts(secret, "private_key")


def _list_parts(secret: str) -> Iterator[str]:
    """Yield what is a secret by itself: the key of AWS credentials, and the password of a URL."""
    yield from _list_json_parts(secret, "SecretAccessKey")
    words = secret.strip().split(":")
    parts = [words[1]] if len(words) in _AWS_PARTS and "://" not in secret else []
    with suppress(ValueError):
        parts.append(unquote(urlsplit(secret).password or ""))
    yield from (part for part in parts if len(part) >= _MIN_PART_CHARS)


def _list_words(secret: str) -> Iterator[str]:
    """Yield what a secret may be made of: its parts, and the words of a list, such as several master keys."""
    yield from _list_parts(secret)
    yield from (word for word in re.split(r"[\s,:]+", secret) if len(word) >= _MIN_PART_CHARS)


def _list_json_parts(secret: str, name: str) -> Iterator[str]:
    if secret.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            part: Any = json.loads(secret).get(name)
            if isinstance(part, str):
                yield part.strip()
