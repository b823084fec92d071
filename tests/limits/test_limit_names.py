"""The names of limits, wherever they are written down."""

from __future__ import annotations

from rota.client.bodies import LimitChanges
from rota.contract.access import LimitsIn, LimitsOut
from rota.domain.limits import Limits


def test_contract_and_client_have_the_limits_that_there_are():
    names = Limits.__struct_fields__
    assert LimitsIn.__struct_fields__ == names
    assert tuple(LimitChanges.__annotations__) == names
    assert set(names) <= set(LimitsOut.__struct_fields__)
