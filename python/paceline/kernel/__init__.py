"""BBRv3 in the running kernel, a congestion control by eBPF (``linux/kernel/`` of the source)."""
