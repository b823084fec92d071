"""A shop that takes orders with Django and confirms them in the background."""
