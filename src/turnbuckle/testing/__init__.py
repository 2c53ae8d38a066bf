"""What proves it, for anybody's tests: virtual time, simulated worlds, cut points, invariants, conformance
suites."""
