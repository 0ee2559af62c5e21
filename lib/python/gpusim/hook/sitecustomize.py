"""What gpuctl run --torch puts first into PYTHONPATH. It runs in each Python that starts under it."""
