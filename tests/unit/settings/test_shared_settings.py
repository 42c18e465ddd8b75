"""The certificate in proxy.conf is checked when proxy.conf loads."""

from pathlib import Path

import pytest
import trustme
from rig.settings_files import edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.settings import load_settings


def test_a_certificate_must_come_with_its_own_key(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    edit(conf_file, "9000", '1\ntls_certificate = "tls.pem"')
    authority = trustme.CA()
    good, other = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    good.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "tls.pem"))
    assert load_settings(conf_file, {}).conf.listen.tls_certificate == tmp_path / "tls.pem"
    mixed = other.private_key_pem.bytes() + good.cert_chain_pems[0].bytes()
    (tmp_path / "tls.pem").write_bytes(mixed)
    with pytest.raises(
        SettingsError, match=r"listen\.tls_certificate: .*tls\.pem: is not a PEM file with a cert"
    ):
        load_settings(conf_file, {})
