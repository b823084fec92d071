"""Everything that speaks SQL: connections, migrations, the embedded server, and one module per concern."""
