"""The REST API: routes over the store, with group commit for submissions and OpenAPI from the types."""
