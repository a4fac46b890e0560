"""Scenes of batches and arrays, on every combination of devices and on the model."""

import pytest

from tests.driver.batching import KINDS, opened


@pytest.fixture(params=KINDS)
def devices(request):
    """The kinds of the scene's NICs; a module overrides this fixture to take fewer."""
    return request.param


@pytest.fixture
def scene(devices, build_of):
    with opened(devices, build_of(devices)) as scene:
        yield scene


@pytest.fixture
def on_model():
    with opened(KINDS[0]) as scene:
        yield scene
