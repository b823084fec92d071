"""Addresses."""

from django.urls import path

from shop.views import place_order, show_order

urlpatterns = [path("orders/", place_order), path("orders/<int:number>/", show_order)]
