"""The APIs that clients speak: one package each reads its requests, writes its answers and words its errors. Pure."""
