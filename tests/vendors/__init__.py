"""What the gateway sends to each model of the catalog, held against vendors as strict as they are."""
