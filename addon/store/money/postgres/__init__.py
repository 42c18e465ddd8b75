"""Money in PostgreSQL, for gateways on any number of machines."""
