"""BBRv3 in the running kernel, a congestion control by eBPF (``kernel/`` of the source)."""
