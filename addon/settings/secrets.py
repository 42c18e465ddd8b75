"""Secrets, read from where a file says they are: an environment variable, a file, or a sealed token.

An error says what is wrong and never shows a value, not even the name of a file: a secret may be in the wrong place.
Source: docs/configuration.md.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import SecretStr

from addon.settings.errors import SettingsError, join_key_path
from addon.settings.sealed_secrets import MasterKeys
from addon.settings.sources import Sources
from addon.settings.value_types import SecretReference
from addon.text.aws_signature import parse_aws_credentials
from policies.provider import Auth

KEY_VARIABLE: Final = "TOLLGATE_SECRET_KEY"
KEY_FILE_VARIABLE: Final = "TOLLGATE_SECRET_KEY_FILE"
ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN = "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"


class MasterKeyText(NamedTuple):
    """Master keys as they were written, and the place where."""

    text: str
    place: str

    def __repr__(self) -> str:
        """Show no key."""
        return f"MasterKeyText(place={self.place!r})"


def read_master_keys(env: Mapping[str, str], sources: Sources, default_file: Path) -> MasterKeyText:
    """Return the master keys of ``TOLLGATE_SECRET_KEY``, else of the file that ``TOLLGATE_SECRET_KEY_FILE`` names.

    Without both, return those of ``default_file``, which a first run makes. Raises ValueError.
    """
    if text := env.get(KEY_VARIABLE, "").strip():
        return MasterKeyText(text, KEY_VARIABLE)
    file = find_key_file(env, default_file)
    is_named = file != default_file
    place = f"the file that {KEY_FILE_VARIABLE} names" if is_named else str(file)
    if not is_named and not sources.exists(file):
        raise ValueError(
            f"no master key is set, in {KEY_VARIABLE} or the file that {KEY_FILE_VARIABLE} names,"
            f" and there is no {file}"
        )
    return MasterKeyText(_read_key_file(file, place, sources), place)


def find_key_file(env: Mapping[str, str], default_file: Path) -> Path:
    """Return the file of master keys, which is read where ``TOLLGATE_SECRET_KEY`` is not set."""
    named = env.get(KEY_FILE_VARIABLE, "").strip()
    return Path(named) if named else default_file


def load_master_keys(env: Mapping[str, str], sources: Sources, default_file: Path) -> MasterKeys:
    """Return the master keys that ``read_master_keys`` finds. Raises ValueError."""
    text, place = read_master_keys(env, sources, default_file)
    try:
        return MasterKeys(text)
    except ValueError as error:
        raise ValueError(f"{place} {error}") from None


def _read_key_file(file: Path, place: str, sources: Sources) -> str:
    try:
        return sources.read_secret(file, owner_only=True).decode()
    except OSError as error:
        raise ValueError(f"{place} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{place} is not UTF-8") from None


class Environment(dict[str, str]):
    """The variables of a process, and the names of those ``elsewhere``: set in another process, with unknown values."""

    def __init__(self, values: Mapping[str, str], elsewhere: frozenset[str] = frozenset()) -> None:
        super().__init__(values)
        self.elsewhere = elsewhere


def list_variables(reference: SecretReference) -> tuple[str, ...]:
    """Return the environment variables that a reference names.

    AWS's own tools keep credentials in three variables. So a variable with the id of an access key has the others next
    to it: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
    """
    if not (name := reference.variable):
        return ()
    if not name.endswith(ACCESS_KEY_ID):
        return (name,)
    prefix = name.removesuffix(ACCESS_KEY_ID)
    return name, prefix + SECRET_ACCESS_KEY, prefix + SESSION_TOKEN


class Secrets:
    """A reader of the secrets of one file. It loads the master keys only for the first sealed secret.

    For ``master_file`` see ``read_master_keys``.
    """

    def __init__(self, env: Mapping[str, str], sources: Sources, master_file: Path) -> None:
        self._env = env
        self._sources = sources
        self._master_file = master_file

    def read(self, reference: SecretReference, folder: Path) -> str:
        """Return a secret without white space around it. Files are relative to ``folder``. Raises ValueError.

        Return an empty text only when its environment variable is unset or empty.
        """
        if reference.kind == "env":
            return self._env.get(reference.name, "").strip()
        if reference.kind == "file":
            text, name = self._read_file(folder / reference.name), "the file that it names"
        else:
            text, name = self._master_keys.unseal(reference.name), "the sealed secret"
        if not (secret := text.strip()):
            raise ValueError(f"{name} is empty")
        return secret

    def require(self, reference: SecretReference, folder: Path) -> str:
        """Return a secret as ``read`` does, but never an empty text. Raises ValueError."""
        if not (secret := self.read(reference, folder)):
            raise ValueError("the environment variable that it names is not set")
        return secret

    def find(self, reference: SecretReference, auth: Auth, file: Path, *path: str | int) -> SecretStr | None:
        """Return the secret that ``file`` refers to at ``path``, or None when its variable is unset or empty.

        Raises ``SettingsError``.
        """
        try:
            if self._is_elsewhere(reference):
                return SecretStr(f"set elsewhere: {reference.name}")
            text = self.read(reference, file.parent)
            if text and auth == "aws_sigv4":
                text = self._read_aws_credentials(text, reference)
            elif text:
                _check_secret(text, auth)
        except ValueError as error:
            raise SettingsError(file, join_key_path(*path), str(error)) from None
        return SecretStr(text) if text else None

    def _is_elsewhere(self, reference: SecretReference) -> bool:
        """Return whether only another process has the variable, or the master key, that a reference needs."""
        if not isinstance(self._env, Environment) or reference.kind == "file":
            return False
        names = {reference.name} if reference.kind == "env" else {KEY_VARIABLE, KEY_FILE_VARIABLE}
        return not self._env.keys() & names and bool(self._env.elsewhere & names)

    def _read_aws_credentials(self, text: str, reference: SecretReference) -> str:
        """Return AWS credentials as one word. For those of several variables see ``list_variables``."""
        _, *others = list_variables(reference) or ("",)
        if others and ":" not in text:
            secret, token = (self._env.get(name, "").strip() for name in others)
            if not secret:
                raise ValueError(f"{others[0]} is not set")
            text = f"{text}:{secret}" + (f":{token}" if token else "")
        return parse_aws_credentials(text).text

    def _read_file(self, file: Path) -> str:
        try:
            return self._sources.read_secret(file).decode()
        except (OSError, UnicodeDecodeError):
            raise ValueError("the file that it names can't be read as a secret") from None

    def derive(self, purpose: str) -> bytes | None:
        """Return 32 bytes of the master key for this purpose, None without a master key."""
        try:
            return self._master_keys.derive(purpose)
        except ValueError:
            return None

    @cached_property
    def _master_keys(self) -> MasterKeys:
        return load_master_keys(self._env, self._sources, self._master_file)


def _check_secret(text: str, auth: Auth) -> None:
    if auth == "google_service_account":
        # Imported here, because this takes long and few settings have a service account.
        from addon.settings.service_account import parse_service_account

        parse_service_account(text)
    elif not all("!" <= character <= "~" for character in text):
        raise ValueError("the secret is not one word of printable ASCII")
