"""The clock of a database, by which all claims are measured, as a test wants it."""

from support.postgres.cluster import Cluster
from support.postgres.server import PostgresServer

_CLOCK = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.shift(seconds float8 NOT NULL);
INSERT INTO {schema}.shift VALUES(0);
CREATE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.clock_timestamp() + (SELECT seconds FROM {schema}.shift) * interval '1 second' $$"""


class DatabaseClock:
    """Whoever has `settings` in the address finds this clock before the database's own."""

    def __init__(self, server: Cluster | PostgresServer, schema: str) -> None:
        self._server = server
        self._schema = schema
        server.sql(_CLOCK.format(schema=schema))

    @property
    def settings(self) -> str:
        return f"schema={self._schema}&search_path={self._schema}%2Cpg_catalog"

    def step(self, seconds: float) -> None:
        self._server.sql(f"UPDATE {self._schema}.shift SET seconds = seconds + ({seconds})")
