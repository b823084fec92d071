"""Tables."""

from django.db import models


class Item(models.Model):
    """What is sold, and how many are left."""

    name = models.CharField(max_length=100, primary_key=True)
    left_over = models.PositiveIntegerField()


class Order(models.Model):
    """A customer's order."""

    email = models.EmailField()
    item = models.ForeignKey(Item, on_delete=models.PROTECT)
    confirmed = models.BooleanField(default=False)
