"""Tests of minibroker.coordinator.transaction."""
