"""Orders in Avro, archived as a table with their fields. See README.md."""
