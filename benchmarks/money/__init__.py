"""Money lost when calls go wrong: the provider's own sum next to what a gateway recorded."""
