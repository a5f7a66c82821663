"""Studies over many runs: sweeps, comparisons, claims, conformance, evaluations."""
