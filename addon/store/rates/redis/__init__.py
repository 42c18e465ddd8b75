"""The rates in Redis or Valkey: alone, with Sentinels, or as a cluster."""
