"""The image of this tree."""

from __future__ import annotations

import pytest

from tests.docker.podman import image as build_image


@pytest.fixture(scope="session")
def image() -> str:
    return build_image()
