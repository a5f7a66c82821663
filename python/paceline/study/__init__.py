"""What is asked of many runs: sweeps, comparisons, claims, conformance, evaluations."""
