"""For workers: rota worker --app shop.worker:app. Sets Django up before the tasks are imported."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django.setup()

from shop.tasks import app  # noqa: E402 - models can't be imported before

__all__ = ["app"]
