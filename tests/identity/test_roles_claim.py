"""The claim with the roles: both of its forms, where it is looked for, and what is not understood."""

from __future__ import annotations

import pytest

from rota.access.jwt_claims import RolesClaim
from rota.domain.rights import Grant, Role
from rota.errors import InvalidTokenError

VIEWER, SUBMITTER, OPERATOR, ADMIN = Role


def read(given, name="rota", default_role=None):
    return RolesClaim(name=name, default_role=default_role).read(given)


@pytest.mark.parametrize(
    ("given", "grants"),
    [
        ({}, {}),
        ({"orders": "viewer"}, {"orders": Grant(VIEWER)}),
        ({"orders": {"role": "submitter"}}, {"orders": Grant(SUBMITTER)}),
        ({"orders": {"role": "viewer", "sees": "all"}}, {"orders": Grant(VIEWER, "all")}),
        ({"*": "admin", "a:b": "operator"}, {"*": Grant(ADMIN), "a:b": Grant(OPERATOR)}),
    ],
)
def test_an_object_names_a_role_for_each_namespace(given, grants):
    assert read({"rota": given}) == grants


@pytest.mark.parametrize(
    "given",
    [
        None,
        "viewer",
        1,
        True,
        {"orders": "boss"},
        {"orders": "Viewer"},
        {"orders": None},
        {"orders": ["viewer"]},
        {"orders": {}},
        {"orders": {"role": "boss"}},
        {"orders": {"role": "viewer", "sees": "everything"}},
        {"orders": {"role": "viewer", "see": "all"}},
        {"": "viewer"},
        {"a\n": "viewer"},
        {"\ud800": "viewer"},
        {"a" * 201: "viewer"},
        {"good": "viewer", "orders": "boss"},
    ],
)
def test_what_is_written_for_rota_and_not_understood_is_refused(given):
    with pytest.raises(InvalidTokenError, match="roles of the token"):
        read({"rota": given})


@pytest.mark.parametrize(
    ("given", "grants"),
    [
        ([], {}),
        (["orders:viewer", "mail:admin"], {"orders": Grant(VIEWER), "mail": Grant(ADMIN)}),
        (["orders:viewer", "orders:operator", "orders:submitter"], {"orders": Grant(OPERATOR)}),
        (["a:b:viewer"], {"a:b": Grant(VIEWER)}),
        (["offline_access", "uma_authorization", "viewer", "orders:boss", "orders:", ":admin", ":", ""], {}),
        (["*:admin", "orders:viewer"], {"orders": Grant(VIEWER)}),
        ([None, 1, True, {"orders": "admin"}, ["orders:admin"], "orders:viewer"], {"orders": Grant(VIEWER)}),
        (["a\n:admin", "\ud800:admin", "a" * 201 + ":admin", "orders: admin", "orders:ADMIN"], {}),
    ],
)
def test_in_a_list_what_is_not_ours_is_passed_over(given, grants):
    assert read({"rota": given}) == grants


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("rota", {"rota": ["orders:viewer"]}),
        ("realm_access.roles", {"realm_access": {"roles": ["orders:viewer"]}}),
        ("a.b.c", {"a": {"b": {"c": {"orders": "viewer"}}}}),
        ("https://rota.example/roles", {"https://rota.example/roles": ["orders:viewer"]}),
        ("a.b", {"a.b": ["orders:viewer"], "a": {"b": ["orders:admin"]}}),
    ],
)
def test_the_claim_is_found_by_its_name_or_by_a_path(name, claims):
    assert read(claims, name) == {"orders": Grant(VIEWER)}


def test_a_path_through_what_is_no_object_is_refused():
    for claims in ({"a": "b"}, {"a": ["b"]}, {"a": None}):
        with pytest.raises(InvalidTokenError):
            read(claims, "a.b", VIEWER)


def test_without_the_claim_there_is_the_default_role_or_none():
    assert read({"sub": "ann"}) == {}
    assert read({"sub": "ann"}, default_role=SUBMITTER) == {"default": Grant(SUBMITTER)}
    assert read({"a": {}}, "a.b", VIEWER) == {"default": Grant(VIEWER)}


def test_with_the_claim_there_is_no_default_role():
    for given in ({}, [], ["somebody:else"], {"orders": "viewer"}):
        assert "default" not in read({"rota": given}, default_role=ADMIN)
