"""What became of each order, kept by an asyncio service with aiokafka; README.md says how it is run and tested."""
