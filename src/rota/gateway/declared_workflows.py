"""Workflows declared in code: what workers send of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.contract.workflows import WorkflowIn

_encoder = msgspec.json.Encoder(order="sorted")


class Declared(msgspec.Struct, frozen=True):
    """The workflows that an application declares, and who owns them."""

    owner: str
    workflows: list[WorkflowIn]


def encode_workflows(owner: str, workflows: Sequence[WorkflowIn]) -> str:
    """The declared workflows as they are stored; equal ones give equal text."""
    return _encoder.encode(Declared(owner, list(workflows))).decode()
