"""What a worker says of the workflows that its application declares."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.contract.workflows import WorkflowIn


class WorkflowDeclarations(msgspec.Struct, frozen=True):
    """The workflows that an application declares, and who owns them."""

    owner: str
    workflows: list[WorkflowIn]


_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(WorkflowDeclarations)


def encode_workflows(owner: str, workflows: Sequence[WorkflowIn]) -> str:
    """The declared workflows as they are stored; equal ones give equal text."""
    return _encoder.encode(WorkflowDeclarations(owner, list(workflows))).decode()


def decode_workflows(text: str) -> WorkflowDeclarations:
    return _decoder.decode(text)
