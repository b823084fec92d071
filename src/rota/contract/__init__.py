"""The REST contract as types, shared by the server and its clients: camelCase on the wire, unknown fields refused."""
