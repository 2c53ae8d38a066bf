"""Settings for every test: property tests are bounded by the test's own timeout, and repeat themselves in CI."""

import os

from hypothesis import HealthCheck, settings

_person = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("person", _person)
settings.register_profile("ci", _person, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "person")
