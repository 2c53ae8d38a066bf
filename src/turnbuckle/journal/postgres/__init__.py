"""The journal in a Postgres database."""
