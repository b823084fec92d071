"""Metrics for Prometheus."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation
from rota.domain.rights import EVERYWHERE, Right
from rota.metrics.exposition import CONTENT_TYPE, exposition


@Operation("GET", "/metrics", Right.OPERATE, answer=str, media_type="text/plain")
async def metrics(services: Backend, call: ApiRequest) -> Response:
    """Metrics of this server and of the installation, for Prometheus: of the namespace, or of all if the role is for
    all namespaces."""
    identity = call.access.identity
    sees_all = EVERYWHERE in identity.grants and identity.may(Right.OPERATE, EVERYWHERE)
    return await _shown(services, None if sees_all else call.namespace)


async def _shown(services: Backend, namespace: str | None) -> Response:
    await services.installation_gauges.refresh()
    return Response(exposition(services.metrics.registry, namespace), headers={"Content-Type": CONTENT_TYPE})


def public_metrics(services: Backend) -> Route:
    """The same for everyone, as ROTA_METRICS_PUBLIC allows."""

    async def show(_request: Request) -> Response:
        return await _shown(services, None)

    return Route("/metrics", show, methods=["GET"])


OPERATIONS = (metrics,)
