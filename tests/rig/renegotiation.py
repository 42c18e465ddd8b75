"""Servers that start another handshake on an open connection, as TLS 1.2 allows."""

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from OpenSSL import SSL


def renegotiating(authority: trustme.CA) -> SSL.Context:
    """Return a context of OpenSSL. A server of the standard library can't start a handshake within TLS 1.2."""
    certificate = authority.issue_cert("localhost")
    context = SSL.Context(SSL.TLSv1_2_METHOD)
    chain = certificate.cert_chain_pems[0].bytes()
    context.use_certificate(x509.load_pem_x509_certificate(chain))
    context.use_privatekey(
        serialization.load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    )
    return context
