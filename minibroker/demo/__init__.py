"""The demo: 336,776 real flights through the broker and back through Spark (`make demo`). All figures are checked."""
