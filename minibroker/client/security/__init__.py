"""TLS and SASL of the client. Imported only when a connection needs them, or to find out why a connection failed."""
