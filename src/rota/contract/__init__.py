"""The REST contract as types, shared by server and clients: camelCase on the wire, unknown fields are refused."""
