"""python manage.py stock chair 3: so many are there now."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from shop.models import Item


class Command(BaseCommand):
    """Fills the stock."""

    help = "Say how many of an item are there."

    def add_arguments(self, parser: CommandParser) -> None:
        """Which, and how many."""
        parser.add_argument("item")
        parser.add_argument("count", type=int)

    def handle(self, *_arguments: Any, **options: Any) -> None:
        """Makes or changes it."""
        Item.objects.update_or_create(name=options["item"], defaults={"left_over": options["count"]})
