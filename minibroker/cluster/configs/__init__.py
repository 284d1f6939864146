"""Configs of topics, brokers, groups, client metrics and loggers: values in force, changes and descriptions."""
