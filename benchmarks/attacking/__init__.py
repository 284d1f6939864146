"""Attacks on a broker's memory and time, one module per theme; `declaration.py` defines an attack."""
