"""Authorities and certificates, made for a test."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Files:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """Signs what a test wants signed."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        signed = _begin(self._name, self._name, self._key.public_key(), days=30)
        signed = signed.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(_pem(signed.sign(self._key, hashes.SHA256())))

    def sign(self, name: str, *hosts: str, days: float = 30, file: str | None = None) -> Files:
        """A certificate for these hosts, valid for so many days from now on."""
        key = ec.generate_private_key(ec.SECP256R1())
        wanted = _begin(_named(name), self._name, key.public_key(), days=days)
        wanted = wanted.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        if hosts:
            wanted = wanted.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        found = Files(self._directory / f"{file or name}.crt", self._directory / f"{file or name}.key")
        found.certificate.write_bytes(_pem(wanted.sign(self._key, hashes.SHA256())))
        found.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        found.key.chmod(0o600)
        return found


def encrypt(key: Path, password: bytes) -> None:
    """The same key, behind a password."""
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    hidden = serialization.BestAvailableEncryption(password)
    key.write_bytes(loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: float):
    now = datetime.now(UTC)
    ends = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - timedelta(days=1))
        .not_valid_after(ends)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
