"""Revenue by product and hour, as a batch or as a stream, with PySpark; README.md says how it is run and tested."""
