"""The image of this tree."""

from __future__ import annotations

import pytest

from tests.docker.podman import image as build_image

IMAGE_TIMEOUT_S = 900  #: of a test that may have to build the image, beside other work


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "image" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(IMAGE_TIMEOUT_S))


@pytest.fixture(scope="session")
def image() -> str:
    return build_image()
