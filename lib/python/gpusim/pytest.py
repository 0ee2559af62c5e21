"""A plugin for pytest."""


def pytest_configure(config):
    config.addinivalue_line("markers", "gpusim: a machine of simulated GPUs")
