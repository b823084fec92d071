"""What a caller may do is remembered exactly as long as the caller's key is believed."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest

from rota.access.authenticator import Authenticator, Credentials
from rota.access.authorization import AccessDeniedError, Authorizer
from rota.access.credential_cache import FRESH_SECONDS, CredentialCache, digest
from rota.access.limits.rate_limiter import RateLimiter
from rota.access.limits.tenant_limits import TenantLimits
from rota.domain.limits import Limits
from rota.domain.rights import Grant, Identity, Right, Role
from rota.errors import BadInputError, NotAuthenticatedError, RateLimitedError
from rota.service import ServiceGroup
from rota.store.access.api_keys import KnownCredential
from rota.store.access.limits import Taken

KEY = "rota_0123456789_secret"


class Server:
    """An authorizer over keys in memory, at a time that the test moves."""

    def __init__(self, limits=None):
        self.now = 1000.0
        self.role = Role.SUBMITTER
        self.is_there = True
        self.asked = 0
        self.cache = CredentialCache(self, monotonic=lambda: self.now)
        known = TenantLimits(None, limits or Limits())
        known.number = 0
        limiter = RateLimiter(limits=known, buckets=self, monotonic=lambda: self.now)
        self.authorizer = Authorizer(
            Authenticator("admin-token", credentials=self.cache), SimpleNamespace(limiter=limiter)
        )

    async def find(self, hashes):
        self.asked += 1
        who = Identity(name="alice", kind="key", grants={"one": Grant(self.role), "two": Grant(Role.VIEWER)})
        known = KnownCredential(UUID(int=1), who, None, unused=False)
        return {each: known for each in hashes if self.is_there and each == digest(KEY)}

    async def take(self, *_bucket, **_wanted):
        return Taken(1, 0.0)

    async def allows(self, needs=Right.SUBMIT, token=KEY, namespace="one"):
        given = Credentials([f"Bearer {token}"])
        return (await self.authorizer.authorize(needs, given, namespace=namespace, path={}))[0]


@pytest.fixture
async def server():
    made = Server()
    async with ServiceGroup([made.cache]):
        yield made


async def test_a_decision_is_used_again_while_the_key_is_believed(server):
    first = await server.allows()
    server.now += FRESH_SECONDS - 0.01
    assert await server.allows() is first
    assert server.asked == 1


async def test_a_revoked_key_is_refused_when_it_is_no_longer_believed(server):
    await server.allows()
    server.is_there = False
    server.now += FRESH_SECONDS
    with pytest.raises(NotAuthenticatedError):
        await server.allows()


async def test_a_key_revoked_on_this_server_is_refused_at_once(server):
    await server.allows()
    server.is_there = False
    server.cache.forget()
    with pytest.raises(NotAuthenticatedError):
        await server.allows()


async def test_a_role_that_was_taken_away_is_gone_with_the_next_look(server):
    await server.allows()
    server.role = Role.VIEWER
    server.now += FRESH_SECONDS
    with pytest.raises(AccessDeniedError, match="viewer"):
        await server.allows()


async def test_a_look_for_another_request_ends_what_was_decided_before(server):
    first = await server.allows()
    server.now += FRESH_SECONDS
    server.role = Role.OPERATOR
    assert (await server.allows(Right.READ)).only is None
    again = await server.allows()
    assert again is not first
    assert (first.only, again.only) == ("alice", None)


async def test_each_right_and_each_namespace_is_decided_by_itself(server):
    await server.allows()
    with pytest.raises(AccessDeniedError):
        await server.allows(Right.OPERATE)
    with pytest.raises(AccessDeniedError):
        await server.allows(namespace="two")
    with pytest.raises(AccessDeniedError):
        await server.allows(namespace="three")
    with pytest.raises(BadInputError):
        await server.allows(namespace="one, two")
    assert (await server.allows(Right.READ, namespace="two")).namespace == "two"


async def test_a_token_that_resembles_one_that_was_accepted_is_refused(server):
    await server.allows()
    await server.allows(token="admin-token")  # noqa: S106 - known to this test alone
    for token in (KEY + "x", KEY[:-1], KEY.upper(), "admin-token-", "admin-toke"):
        with pytest.raises(NotAuthenticatedError):
            await server.allows(token=token)


async def test_remembered_or_not_every_request_counts_towards_the_limits():
    limited = Server(Limits(requests_per_second=0.001, request_burst=3))
    async with ServiceGroup([limited.cache]):
        await limited.allows()
        with pytest.raises(RateLimitedError):
            await limited.allows()


async def test_no_more_decisions_are_remembered_than_there_is_room_for(server, monkeypatch):
    monkeypatch.setattr("rota.access.authorization._MOST_REMEMBERED", 5)
    for number in range(20):
        await server.allows(token="admin-token", namespace=f"n{number}")  # noqa: S106
    assert len(server.authorizer._decided) <= 5
