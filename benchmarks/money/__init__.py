"""What calls cost whoever pays: the provider's own sum next to what a gateway recorded."""
