"""A shop that takes orders over HTTP and confirms them in the background."""
