"""The chat API, ``POST /v1/chat/completions``. Pure. Source: contract."""
