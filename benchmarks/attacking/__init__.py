"""Attacks on a broker's memory and time, a module a theme; `declaration.py` says what an attack is."""
